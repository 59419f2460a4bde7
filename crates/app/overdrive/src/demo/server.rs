//! The server of one side: `overdrive serve` itself, the same program as everywhere.

use super::children::{Children, Running};
use stack::Failure;
use std::io::Read;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

/// The slow backing: a network volume or a good SATA drive under load, 0.5 ms per operation and
/// four at a time.
const DELAY: &str = "read=500us,write=500us,flush=500us,servers=4";

/// Time between two checks whether it serves, in milliseconds.
const START_LOOK_MS: i64 = 20;

/// A running server.
pub(super) struct Server {
    running: Running,
    output: ChildStdout,
    uri: String,
}

/// Statistics of the server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Counted {
    /// Reads answered from memory, of all, in percent.
    pub(super) hits_percent: f64,
    /// Blocks overwritten before they had to be written.
    pub(super) blocks_saved: u64,
}

impl Server {
    /// Serves an image, slowed down, with this much memory; 0: without a cache layer.
    pub(super) fn start(
        children: &Children,
        directory: &Path,
        image: &Path,
        memory_bytes: u64,
    ) -> Result<Server, Failure> {
        // This also works if the program's file was replaced.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg("serve")
            .arg(image)
            .args(["--delay", DELAY, "--name", "disk", "--json", "--warm", "off", "--memory"])
            .arg(memory_bytes.to_string())
            .arg("--nbd")
            .arg(format!("unix:{}", directory.join("disk.sock").display()));
        let mut running = children.start("overdrive-serve", &mut command, Stdio::piped())?;
        let output = running.take_output().expect("its output is a pipe");
        // It prints the URI once clients can connect.
        loop {
            if let Some(uri) = running.find_line("nbd+unix:") {
                return Ok(Server { running, output, uri });
            }
            if running.has_ended() {
                return Err(running.failure("it did not start to serve"));
            }
            children.pause(START_LOOK_MS)?;
        }
    }

    /// Returns the URI for clients.
    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Stops it: it drains and flushes. Returns its statistics, if it has a cache.
    pub(super) fn stop(mut self, children: &Children) -> Result<Option<Counted>, Failure> {
        self.running.terminate();
        let status = children.wait(&mut self.running, &mut || ())?;
        if !status.success() {
            return Err(self.running.failure(&status.to_string()));
        }
        let mut text = String::new();
        // Its statistics are not essential for the table.
        let _ = self.output.read_to_string(&mut text);
        Ok(counted(&text))
    }
}

fn counted(text: &str) -> Option<Counted> {
    let value: serde_json::Value = serde_json::from_str(text.trim()).ok()?;
    let counter = |name: &str| value["counters"][name].as_u64();
    let (hits, misses) = (counter("read_hits")?, counter("read_misses")?);
    Some(Counted {
        hits_percent: 100.0 * hits as f64 / (hits + misses).max(1) as f64,
        blocks_saved: counter("blocks_saved")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_where_there_are_any() {
        let text = r#"{"counters":{"read_hits":3,"read_misses":1,"blocks_saved":9}}"#;
        let some = counted(text).expect("complete");
        assert_eq!((some.hits_percent, some.blocks_saved), (75.0, 9));
        assert_eq!(counted(r#"{"counters":{}}"#), None);
        assert_eq!(counted(""), None);
    }
}
