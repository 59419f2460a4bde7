//! A host that loses its power: the daemon and its holder die, and the disk below forgets unflushed
//! data.
//!
//! ```text
//!   client (Mounted) -- overdrive serve -- file of nbdfuse -- lossy disk, which keeps one
//!                                                             version of every 4 KiB since its
//!                                                             last flush
//! ```

use crate::common::{Server, pause, wait_until};
use crate::dice::Dice;
use crate::home::Home;
use crate::mounted::{Mounted, plain};
use killtest::backing::DiskOptions;
use killtest::lossy::Flushes;
use killtest::stage::{Backing, Mount};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The host.
pub(crate) struct Host {
    /// None while it is off.
    server: Option<Server>,
    /// The disk as a file.
    mount: Option<Mount>,
    disk: Backing,
    bytes: u64,
    options: Vec<String>,
    /// Dropped last: it contains the file.
    home: Arc<Home>,
}

impl Host {
    /// Returns a host with an empty disk, which serves it with these options.
    pub(crate) fn new(mib: u64, options: &[&str], dice: &mut Dice) -> Host {
        Host::start(Flushes::Honest, mib, options, dice)
    }

    /// Returns a host with a disk that may lie about flushes.
    pub(crate) fn start(flushes: Flushes, mib: u64, options: &[&str], dice: &mut Dice) -> Host {
        let (home, bytes) = (Home::new(), mib << 20);
        let socket = &home.path().join("lossy");
        let seed = dice.between(0, u64::from(u32::MAX));
        let disk_options = DiskOptions { socket, bytes, seed, flushes };
        let disk = Backing::start_here(&disk_options).expect("a disk");
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let mut host = Host { server: None, mount: None, disk, bytes, options, home };
        host.power_on();
        host
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().expect("it is on")
    }

    /// Turns the disk on with its surviving data, and serves it.
    pub(crate) fn power_on(&mut self) {
        assert_eq!(self.disk.ask("serve").expect("it lives"), "serving");
        let (file, socket) = (self.home.path().join("disk"), self.home.path().join("lossy"));
        self.mount = Some(Mount::start(&file, &socket, self.bytes).expect("a file"));
        self.serve();
    }

    /// Kills the daemon. The next one takes over the retained memory.
    pub(crate) fn kill_and_restart(&mut self) {
        drop(self.server.take().expect("it is on").kill());
        self.serve();
    }

    fn serve(&mut self) {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        let file = self.home.path().join("disk");
        self.server = Some(Server::start_in(&self.home, plain(&file), &options));
    }

    /// Cuts the power, at a random moment, of the host and of the client's machine. Returns the
    /// time, in seconds of the wall clock.
    pub(crate) fn cut(&mut self, client: Mounted, dice: &mut Dice) -> f64 {
        pause(Duration::from_millis(dice.between(0, 700)));
        let seed = dice.between(0, u64::from(u32::MAX));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.disk.ask(&format!("cut {seed}")).expect("it lives");
        let server = self.server.take().expect("it is on");
        server.signal(Signal::KILL);
        // The daemon ends once its requests to the disk have ended.
        self.mount = None;
        // No data that the client still has may reach the disk after the cut.
        drop(client);
        server.wait();
        for holder in self.home.holders() {
            kill_process(Pid::from_raw(holder.holder_pid).expect("a process"), Signal::KILL)
                .expect("it lives");
        }
        wait_until("the holders are gone", || self.home.holders().is_empty());
        now.expect("after 1970").as_secs_f64()
    }

    /// Ends it as an operator does.
    pub(crate) fn end(mut self) {
        self.server.take().expect("it is on").end().well();
    }
}
