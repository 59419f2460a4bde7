//! Values with units, as the command line and config files have them.

pub use block::time_us;
use block::{DelaySpec, FaultsSpec, Size};
use ring::Polling;
use std::path::PathBuf;
use std::time::Duration;

/// Parses a size: `4K` = `4KiB` = 4096, `4KB` = 4000.
///
/// # Errors
/// A sentence with a correction.
pub fn size(text: &str) -> Result<Size, String> {
    text.parse()
}

/// Parses a time, and returns milliseconds, rounded up.
///
/// # Errors
/// A sentence with a correction.
pub fn time_ms(text: &str) -> Result<u64, String> {
    Ok(time_us(text)?.div_ceil(1000))
}

/// How long requests to a device or a mounted file wait for a new daemon, before they fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTime(
    /// Time in milliseconds. None: they wait until there is a daemon.
    pub Option<u64>,
);

impl WaitTime {
    /// Returns the longer of two times.
    pub fn longer(self, other: WaitTime) -> WaitTime {
        WaitTime(self.0.zip(other.0).map(|(one, two)| one.max(two)))
    }

    /// Returns it as a duration.
    pub fn duration(self) -> Option<Duration> {
        self.0.map(Duration::from_millis)
    }
}

impl Default for WaitTime {
    fn default() -> WaitTime {
        WaitTime(Some(holder::WAIT_DEFAULT_MS))
    }
}

/// Parses `forever`, or a time.
///
/// # Errors
/// A sentence with a correction.
pub fn wait_time(text: &str) -> Result<WaitTime, String> {
    match text {
        "forever" => Ok(WaitTime(None)),
        _ => match time_ms(text) {
            Ok(time_ms) => Ok(WaitTime(Some(time_ms))),
            Err(error) => Err(format!("{error}, or 'forever'")),
        },
    }
}

/// Maximum polling time; a longer one would take idle processors from other processes.
const POLL_MAX: Duration = Duration::from_millis(50);

/// Parses `adaptive`, `off`, or a time of at most 50 ms.
///
/// # Errors
/// A sentence with a correction.
pub fn polling(text: &str) -> Result<Polling, String> {
    match text {
        "adaptive" => return Ok(Polling::Adaptive),
        "off" => return Ok(Polling::Off),
        _ => {}
    }
    let time = time_us(text).map(Duration::from_micros);
    match time.map_err(|error| format!("{error}; or 'adaptive', or 'off'"))? {
        Duration::ZERO => Ok(Polling::Off),
        time if time > POLL_MAX => {
            Err(format!("'{text}': write at most 50ms, so that idle processors can serve others"))
        }
        time => Ok(Polling::Fixed(time)),
    }
}

/// Formats microseconds so that they can be parsed again.
pub(crate) fn time_text(time_us: u64) -> String {
    match time_us {
        time if time % 1_000_000 == 0 => format!("{}s", time / 1_000_000),
        time if time % 1_000 == 0 => format!("{}ms", time / 1_000),
        time => format!("{time}us"),
    }
}

/// Formats it so that [`polling`] can parse it.
pub fn polling_text(polling: Polling) -> String {
    match polling {
        Polling::Adaptive => "adaptive".to_owned(),
        Polling::Off => "off".to_owned(),
        Polling::Fixed(time) => time_text(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
    }
}

/// Formats it so that [`wait_time`] can parse it.
pub fn wait_time_text(time: WaitTime) -> String {
    time.0.map_or_else(|| "forever".to_owned(), |ms| time_text(ms.saturating_mul(1_000)))
}

/// Formats it so that [`delay`] can parse it.
pub fn delay_text(delay: &DelaySpec) -> String {
    let [read, write, flush] = [delay.read_us, delay.write_us, delay.flush_us].map(time_text);
    let (servers, bandwidth) = (delay.servers, delay.bandwidth.0);
    format!("read={read},write={write},flush={flush},servers={servers},bandwidth={bandwidth}")
}

/// Formats it so that [`faults`] can parse it.
pub fn faults_text(faults: &FaultsSpec) -> String {
    let FaultsSpec { read_from, write_from, flush_from, count, errno, hang_ms } = faults;
    let hang = time_text(hang_ms.saturating_mul(1_000));
    format!(
        "read={read_from},write={write_from},flush={flush_from},count={count},errno={errno},\
         hang={hang}"
    )
}

/// Parses `on` or `off`.
///
/// # Errors
/// A sentence with a correction.
pub fn on_off(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("'{text}': write on or off")),
    }
}

/// Formats nanoseconds for users.
pub fn nanoseconds(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

fn pairs(text: &str) -> impl Iterator<Item = Result<(&str, &str), String>> {
    text.split(',')
        .map(|pair| pair.split_once('=').ok_or_else(|| format!("'{pair}' is not KEY=VALUE")))
}

/// Parses a slow device: `read=500us,write=1ms,flush=2ms,servers=4,bandwidth=100M`.
///
/// # Errors
/// A sentence that names the wrong part.
pub fn delay(text: &str) -> Result<DelaySpec, String> {
    let mut delay = DelaySpec::default();
    for pair in pairs(text) {
        match pair? {
            ("read", value) => delay.read_us = time_us(value)?,
            ("write", value) => delay.write_us = time_us(value)?,
            ("flush", value) => delay.flush_us = time_us(value)?,
            ("servers", value) => {
                let servers = value.parse().ok().filter(|&servers| servers > 0);
                delay.servers = servers.ok_or(format!("servers={value}: write 1 or more"))?;
            }
            ("bandwidth", value) => delay.bandwidth = value.parse()?,
            (key, _) => {
                return Err(format!(
                    "'{key}' is unknown; write read, write, flush, servers or bandwidth"
                ));
            }
        }
    }
    Ok(delay)
}

/// Parses a failing device: `write=10,flush=3,read=0,count=2,errno=28`, or `hang=30s` for one that
/// does not answer for that time.
///
/// # Errors
/// A sentence that names the wrong part.
pub fn faults(text: &str) -> Result<FaultsSpec, String> {
    let mut faults = FaultsSpec::default();
    for pair in pairs(text) {
        let (key, value) = pair?;
        let bad = |_| format!("{key}={value}: not a number; write a whole number");
        match key {
            "read" => faults.read_from = value.parse().map_err(bad)?,
            "write" => faults.write_from = value.parse().map_err(bad)?,
            "flush" => faults.flush_from = value.parse().map_err(bad)?,
            "count" => faults.count = value.parse().map_err(bad)?,
            "errno" => faults.errno = value.parse().map_err(bad)?,
            "hang" => faults.hang_ms = time_ms(value)?,
            _ => {
                return Err(format!(
                    "'{key}' is unknown; write read, write, flush, count, errno or hang"
                ));
            }
        }
    }
    Ok(faults)
}

/// Parses a directory.
///
/// # Errors
/// The path is empty.
pub fn directory(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("name a directory".to_owned()),
        _ => Ok(PathBuf::from(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_with_units_are_read_or_refused() {
        assert_eq!(polling("adaptive"), Ok(Polling::Adaptive));
        assert_eq!((polling("off"), polling("0")), (Ok(Polling::Off), Ok(Polling::Off)));
        assert_eq!(polling("20ms"), Ok(Polling::Fixed(Duration::from_millis(20))));
        assert!(polling("51ms").is_err_and(|error| error.contains("at most 50ms")));
        assert_eq!(wait_time("2s"), Ok(WaitTime(Some(2_000))));
        assert_eq!(wait_time("forever"), Ok(WaitTime(None)));
        assert!(wait_time("long").is_err_and(|error| error.contains("or 'forever'")));
        let (short, long) = (WaitTime(Some(1)), WaitTime(Some(2)));
        assert_eq!((short.longer(long), long.longer(WaitTime(None))), (long, WaitTime(None)));
        assert!(polling("on").is_err_and(|error| error.contains("'adaptive', or 'off'")));
        for text in ["adaptive", "off", "20ms", "50us"] {
            assert_eq!(polling(text).map(polling_text), Ok(text.to_owned()));
        }
        for text in ["forever", "2s", "1500ms"] {
            assert_eq!(wait_time(text).map(wait_time_text), Ok(text.to_owned()));
        }
        let odd = delay("read=2ms,write=7us,servers=8,bandwidth=100M").expect("good");
        assert_eq!(delay(&delay_text(&odd)), Ok(odd));
        for text in ["flush=3,errno=28", "read=1,hang=2s", "write=2,count=1"] {
            let faulty = faults(text).expect("good");
            assert_eq!(faults(&faults_text(&faulty)), Ok(faulty));
        }
        let slow = delay("read=2ms,servers=8,bandwidth=100M").expect("good");
        assert_eq!((slow.read_us, slow.servers, slow.bandwidth), (2_000, 8, Size(100 << 20)));
        assert!(delay("servers=0").is_err());
        assert!(delay("latency=1ms").is_err());
        assert!(delay("read").is_err());
        assert_eq!(faults("flush=3,errno=28").expect("good").errno, 28);
        assert_eq!(faults("read=1,hang=2s").expect("good").hang_ms, 2_000);
        assert!(faults("write=x").is_err());
    }
}
