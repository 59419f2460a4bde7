//! The daemon's side of the process that maps files.

use super::life::Life;
use super::{MAP_FILES, MapSummary};
use block::Rules;
use hotlist::{CLASS_LIST_BYTES_MAX, ClassList};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use stack::{Exit, Failure};
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum length of the first line of the output, in bytes.
const SUMMARY_BYTES_MAX: usize = 1 << 20;

/// One map is made at a time: a daemon of many volumes must not hold many outputs.
static TURN: Mutex<()> = Mutex::new(());

/// A volume whose files are to be mapped.
pub(crate) struct Call {
    /// The daemon's control socket.
    pub(crate) control: PathBuf,
    pub(crate) volume: String,
    pub(crate) volume_blocks: u64,
    pub(crate) rules: Rules,
    /// Size of the cache.
    pub(crate) memory_bytes: u64,
    /// The life of the process.
    pub(crate) life: Arc<Life>,
}

/// The classes of a volume's blocks.
pub(crate) struct Mapped {
    pub(crate) summary: MapSummary,
    pub(crate) list: ClassList,
    /// The list as it is saved.
    pub(crate) bytes: Vec<u8>,
}

fn failure(why: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Io, format!("its files cannot be mapped: {why}"))
}

impl Call {
    /// Runs the process, and waits for its end.
    ///
    /// # Errors
    /// It cannot be started, has failed, was killed or ended, or its output is wrong.
    pub(crate) fn run(&self) -> Result<Mapped, Failure> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // This also works if the program's file was replaced.
        let mut command = Command::new("/proc/self/exe");
        command
            .args([MAP_FILES, "--"])
            .arg(getpid().as_raw_nonzero().to_string())
            .arg(&self.control);
        command.args([&self.volume, &self.rules.to_string(), &self.memory_bytes.to_string()]);
        command.current_dir("/").env_remove("NOTIFY_SOCKET");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        host::make_ordinary(&mut command);
        self.life.open().map_err(failure)?;
        let ended = command.spawn().map(|mut child| (self.receive(&mut child), child.wait()));
        self.life.finish();
        let (output, status) = ended.map_err(failure)?;
        if let Some(why) = self.life.ended() {
            return Err(failure(why));
        }
        let (output, status) = (output.map_err(failure)?, status.map_err(failure)?);
        if !status.success() {
            return Err(failure(format_args!("its process has ended with {status}")));
        }
        self.parse(output)
    }

    /// Receives the output of the process, and kills it after an error.
    fn receive(&self, child: &mut Child) -> io::Result<Vec<u8>> {
        let begun = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
        let begun = begun.map(|process| self.life.begin(process)).map_err(io::Error::from);
        let mut output = Vec::new();
        let most = (SUMMARY_BYTES_MAX + CLASS_LIST_BYTES_MAX) as u64;
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe.into());
        let read = begun.and(stdout).and_then(|it| it.take(most + 1).read_to_end(&mut output));
        // One that goes on writing would wait for its reader for ever.
        if read.is_err() || output.len() as u64 > most {
            let _ = child.kill();
        }
        read.map(|_| output)
    }

    /// Parses the output of the process.
    fn parse(&self, mut output: Vec<u8>) -> Result<Mapped, Failure> {
        let end = output.iter().position(|byte| *byte == b'\n');
        let end = end.filter(|end| *end <= SUMMARY_BYTES_MAX);
        let end = end.ok_or_else(|| failure("its process has printed no summary"))?;
        let summary = serde_json::from_slice(&output[..end]).map_err(failure)?;
        let bytes = output.split_off(end + 1);
        let list = ClassList::parse(&bytes, self.volume_blocks).map_err(failure)?;
        Ok(Mapped { summary, list, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_output_is_refused() {
        let call = Call {
            control: PathBuf::new(),
            volume: "db".to_owned(),
            volume_blocks: 100,
            rules: Rules::default(),
            memory_bytes: 1 << 20,
            life: Arc::default(),
        };
        let run = hotlist::ClassRun { first: 3, blocks: 97, class: 0 };
        let list = ClassList { names: vec!["metadata".to_owned()], runs: vec![run] };
        let summary = serde_json::to_vec(&MapSummary::default()).expect("plain data");
        let good = [&summary[..], b"\n", &list.encode()].concat();
        assert_eq!(call.parse(good.clone()).map(|mapped| mapped.list).ok(), Some(list));
        for bad in [&b""[..], b"\n", &good[..good.len() - 1], &summary, b"{}\n"] {
            assert!(call.parse(bad.to_vec()).is_err(), "{}", String::from_utf8_lossy(bad));
        }
        let smaller = Call { volume_blocks: 99, ..call };
        assert!(smaller.parse(good).is_err(), "a block beyond the end");
    }
}
