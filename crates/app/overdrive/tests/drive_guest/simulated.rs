//! A SCSI disk that a test simulates: the kernel passes the commands for a device in /dev on to
//! this process (target_core_user), so that the disk can have commands that no emulator has, take
//! time for them, lie, and lose its power.
//!
//! Source: Documentation/target/tcmu-design.rst, include/uapi/linux/target_core_user.h.

use host::now_ns;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const SECTOR: usize = 512;
const BYTES: usize = 16 << 20;
/// The serial number.
pub(crate) const SERIAL: &str = "SIMULATED-DISK";

const MODEL: &str = "Simulated disk";
/// The kernel's configuration of SCSI targets, and the disk's directory among the targets.
const CONFIG: &str = "/sys/kernel/config";
const CORE: &str = "core/user_0/simulated";

/// Key, code and qualifier of a state or an error.
pub(crate) type Sense = (u8, u8, u8);
const NO_COMMAND: Sense = (5, 0x20, 0);
const FORMATTING: Sense = (2, 0x04, 0x04);
const SANITIZING: Sense = (2, 0x04, 0x1b);
const STARTING: Sense = (2, 0x04, 0x01);
const RESET: Sense = (6, 0x29, 0x01);
const FORMAT_DAMAGED: Sense = (3, 0x31, 0x00);
const NO_SENSE: Sense = (0, 0, 0);

/// An operation that erases.
struct Operation {
    is_format: bool,
    begun_ns: u64,
    takes: Duration,
}

/// The simulated disk.
#[derive(Default)]
pub(crate) struct Disk {
    data: Vec<u8>,
    /// Service actions of SANITIZE that it reports, and whether it reports FORMAT UNIT.
    pub(crate) sanitizes: Vec<u8>,
    pub(crate) has_format: bool,
    /// It reports commands, and rejects them.
    pub(crate) rejects: bool,
    /// It reports the end of an operation, and has changed nothing.
    pub(crate) lies: bool,
    /// Time that an operation takes.
    pub(crate) takes: Duration,
    operation: Option<Operation>,
    /// Answers to the next commands, after its power was cut.
    answers: VecDeque<Sense>,
    is_damaged: bool,
    /// The commands that have begun operations.
    pub(crate) begun: Vec<Vec<u8>>,
}

/// The answer to a command: data, or an error.
type Answer = Result<Vec<u8>, Sense>;

impl Disk {
    /// Cuts the power, which returns after a few commands.
    pub(crate) fn cut_power(&mut self) {
        self.answers = [STARTING, STARTING, RESET].into();
        if self.operation.as_ref().is_some_and(|operation| operation.is_format) {
            self.operation = None;
            self.is_damaged = true;
        }
    }

    /// Makes a new disk of it, with data.
    pub(crate) fn renew(&mut self) {
        *self = Disk {
            data: vec![0xa5; BYTES],
            sanitizes: vec![1, 2, 3],
            has_format: true,
            ..Disk::default()
        };
    }

    /// Whether all its data is gone.
    pub(crate) fn is_blank(&self) -> bool {
        self.data.iter().all(|byte| *byte == 0)
    }

    /// Returns the state, and the progress in 65,536ths.
    fn state(&mut self) -> (Sense, u16) {
        if self.is_damaged {
            return (FORMAT_DAMAGED, 0);
        }
        let Some(operation) = &self.operation else { return (NO_SENSE, 0) };
        let passed = Duration::from_nanos(now_ns() - operation.begun_ns);
        if passed < operation.takes {
            let share = passed.as_secs_f64() / operation.takes.as_secs_f64();
            let sense = if operation.is_format { FORMATTING } else { SANITIZING };
            return (sense, (share * 65_536.0) as u16);
        }
        self.operation = None;
        if !self.lies {
            self.data.fill(0);
        }
        (NO_SENSE, 0)
    }

    fn begin(&mut self, command: &[u8], is_format: bool, is_there: bool) -> Answer {
        if !is_there || self.rejects {
            return Err(NO_COMMAND);
        }
        self.begun.push(command.to_vec());
        self.operation = Some(Operation { is_format, begun_ns: now_ns(), takes: self.takes });
        Ok(vec![])
    }

    /// Runs a command. `written`: the data that came with it.
    fn run(&mut self, command: &[u8], written: &[u8]) -> Answer {
        let number = |at: usize| {
            u32::from_be_bytes(command[at..at + 4].try_into().expect("four bytes")) as usize
        };
        // Commands that a disk answers in every state.
        match command[0] {
            0x12 => return inquiry(command),
            0x03 => {
                let (state, progress) = match self.answers.pop_front() {
                    Some(answer) => (answer, 0),
                    None => self.state(),
                };
                return Ok(sense(state, progress).to_vec());
            }
            0xa3 if command[1] == 0x0c => {
                let is_there = match command[3] {
                    0x04 => self.has_format,
                    0x48 => self.sanitizes.contains(&command[5]),
                    _ => false,
                };
                return Ok(vec![0, if is_there { 3 } else { 1 }, 0, 10]);
            }
            _ => {}
        }
        if let Some(answer) = self.answers.pop_front() {
            return Err(answer);
        }
        let (state, _) = self.state();
        let sectors = (BYTES / SECTOR) as u32;
        match command[0] {
            // The size is known in every state.
            0x25 => Ok([(sectors - 1).to_be_bytes(), 512u32.to_be_bytes()].concat()),
            0x9e if command[1] == 0x10 => {
                let mut found = u64::from(sectors - 1).to_be_bytes().to_vec();
                found.extend(512u32.to_be_bytes());
                found.resize(32, 0);
                Ok(found)
            }
            0x1a => Ok(vec![3, 0, 0, 0]),
            0x5a => Ok(vec![0, 6, 0, 0, 0, 0, 0, 0]),
            _ if state != NO_SENSE && !(state == FORMAT_DAMAGED && command[0] == 0x04) => {
                Err(state)
            }
            0x00 | 0x1b | 0x35 | 0x91 => Ok(vec![]),
            0x28 => self.read(number(2), usize::from(u16_at(command, 7))),
            0x88 => self.read(number(6), number(10)),
            0x2a => self.write(number(2), written),
            0x8a => self.write(number(6), written),
            0x04 => {
                self.is_damaged = false;
                self.begin(command, true, self.has_format)
            }
            0x48 => {
                let is_there = self.sanitizes.contains(&(command[1] & 0x1f));
                self.begin(command, false, is_there)
            }
            _ => Err(NO_COMMAND),
        }
    }

    fn read(&self, first: usize, count: usize) -> Answer {
        let range = first * SECTOR..(first + count) * SECTOR;
        self.data.get(range).map(<[u8]>::to_vec).ok_or((5, 0x21, 0))
    }

    fn write(&mut self, first: usize, written: &[u8]) -> Answer {
        let range = first * SECTOR..first * SECTOR + written.len();
        self.data.get_mut(range).ok_or((5, 0x21, 0))?.copy_from_slice(written);
        Ok(vec![])
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn inquiry(command: &[u8]) -> Answer {
    let page =
        |number: u8, content: &[u8]| [&[0, number, 0, content.len() as u8][..], content].concat();
    if command[1] & 1 == 0 {
        let mut found = vec![0, 0, 6, 2, 31, 0, 0, 2];
        found.extend(b"OVERDRIVSimulated disk  1.0 ");
        return Ok(found);
    }
    match command[2] {
        0x00 => Ok(page(0, &[0x00, 0x80, 0x83])),
        0x80 => Ok(page(0x80, SERIAL.as_bytes())),
        // A name of the vendor, in ASCII.
        0x83 => Ok(page(0x83, &[&[2, 1, 0, 14][..], SERIAL.as_bytes()].concat())),
        _ => Err((5, 0x24, 0)),
    }
}

/// Returns sense data in the fixed format.
fn sense((key, code, qualifier): Sense, progress: u16) -> [u8; 18] {
    let [high, low] = progress.to_be_bytes();
    let has_progress = if matches!((code, qualifier), (4, 4 | 0x1b)) { 0x80 } else { 0 };
    [0x70, 0, key, 0, 0, 0, 0, 10, 0, 0, 0, 0, code, qualifier, 0, has_progress, high, low]
}

/// The memory that the kernel shares with this process: a mailbox, a ring of commands, and data.
struct Ring {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the memory is valid until the process ends, and one thread uses it.
unsafe impl Send for Ring {}

impl Ring {
    fn check(&self, at: usize, bytes: usize) {
        assert!(at.checked_add(bytes).is_some_and(|end| end <= self.bytes), "{at} {bytes}");
    }

    fn get(&self, at: usize, bytes: usize) -> Vec<u8> {
        self.check(at, bytes);
        let mut copy = vec![0; bytes];
        // SAFETY: the range is in the mapping. The kernel changes nothing there until the command
        // is answered.
        unsafe { std::ptr::copy_nonoverlapping(self.start.add(at), copy.as_mut_ptr(), bytes) };
        copy
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        self.check(at, bytes.len());
        // SAFETY: as in `get`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at), bytes.len()) };
    }

    fn number(&self, at: usize) -> usize {
        u32::from_ne_bytes(self.get(at, 4).try_into().expect("four bytes")) as usize
    }

    fn long(&self, at: usize) -> usize {
        u64::from_ne_bytes(self.get(at, 8).try_into().expect("eight bytes")) as usize
    }

    /// Returns a counter of the mailbox that both sides use.
    fn counter(&self, at: usize) -> &AtomicU32 {
        self.check(at, 4);
        // SAFETY: it is aligned, in the mapping, and both sides use it as an atomic number.
        unsafe { AtomicU32::from_ptr(self.start.add(at).cast()) }
    }

    /// Answers all commands in the ring.
    fn answer(&self, disk: &Mutex<Disk>) {
        let (first, size) = (self.number(4), self.number(8));
        let (head, tail) = (self.counter(12), self.counter(64));
        let mut at = tail.load(Ordering::Relaxed) as usize;
        while at != head.load(Ordering::Acquire) as usize {
            let entry = first + at;
            let (length, kind) = (self.number(entry) & !7, self.number(entry) & 7);
            if kind == 1 {
                self.answer_entry(entry, disk);
            }
            at = (at + length) % size;
            tail.store(at as u32, Ordering::Release);
        }
    }

    fn answer_entry(&self, entry: usize, disk: &Mutex<Disk>) {
        let command = self.get(self.long(entry + 24), 16);
        let pieces: Vec<(usize, usize)> = (0..self.number(entry + 8))
            .map(|piece| entry + 48 + piece * 16)
            .map(|at| (self.long(at), self.long(at + 8)))
            .collect();
        let is_write = matches!(command[0], 0x2a | 0x8a | 0x04 | 0x48);
        let written: Vec<u8> = match is_write {
            true => pieces.iter().flat_map(|(at, bytes)| self.get(*at, *bytes)).collect(),
            false => Vec::new(),
        };
        let answer = lock(disk).run(&command, &written);
        let mut response = [0; 104];
        match answer {
            Ok(data) => {
                let mut rest = &data[..];
                for (at, bytes) in pieces.iter().filter(|_| !is_write) {
                    let (piece, others) = rest.split_at(rest.len().min(*bytes));
                    self.put(*at, piece);
                    rest = others;
                }
            }
            Err(error) => {
                response[0] = 2;
                response[8..26].copy_from_slice(&sense(error, 0));
            }
        }
        self.put(entry + 8, &response);
    }
}

fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(|broken| broken.into_inner())
}

/// A simulated disk that the kernel shows.
pub(crate) struct Simulated {
    disk: Arc<Mutex<Disk>>,
    /// Its name in /dev.
    pub(crate) name: String,
}

impl Simulated {
    /// Creates the disk, or panics. It stays until the machine ends.
    pub(crate) fn new() -> Simulated {
        let disk = Arc::new(Mutex::new(Disk::default()));
        lock(&disk).renew();
        let config = Path::new(CONFIG);
        if !config.join("target").exists() {
            let mut mount = std::process::Command::new("mount");
            mount.args(["-t", "configfs", "configfs", CONFIG]);
            assert!(mount.status().is_ok_and(|status| status.success()), "configfs");
        }
        let core = config.join("target").join(CORE);
        fs::create_dir_all(&core).expect("target_core_user");
        for words in
            [&format!("dev_size={BYTES}"), "dev_config=simulated/disk", "hw_block_size=512"]
        {
            write(&core.join("control"), words);
        }
        write(&core.join("enable"), "1");
        serve(disk.clone());
        add_path(1);
        Simulated { disk, name: wait_for(|| name_of_model(MODEL)) }
    }

    /// Adds a second path to the disk.
    pub(crate) fn add_path(&self) -> SecondPath {
        let link = add_path(2);
        let is_other = |name: &String| *name != self.name;
        SecondPath { link, name: wait_for(|| names_of_model(MODEL).find(is_other)) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }
}

/// A second path to the disk, until it is dropped.
pub(crate) struct SecondPath {
    link: PathBuf,
    /// Its name in /dev.
    pub(crate) name: String,
}

impl Drop for SecondPath {
    fn drop(&mut self) {
        fs::remove_file(&self.link).expect("tcm_loop");
    }
}

/// Connects the disk to an adapter of this number. Returns the link whose removal disconnects it.
fn add_path(number: u32) -> PathBuf {
    let target = Path::new(CONFIG).join("target");
    let group = target.join(format!("loopback/naa.500140500000000{number}/tpgt_1"));
    let unit = group.join("lun/lun_0");
    fs::create_dir_all(&unit).expect("tcm_loop");
    write(&group.join("nexus"), &format!("naa.500140500000001{number}"));
    let link = unit.join("simulated");
    std::os::unix::fs::symlink(target.join(CORE), &link).expect("tcm_loop");
    link
}

/// Returns the disk of a model.
pub(crate) fn name_of_model(model: &str) -> Option<String> {
    names_of_model(model).next()
}

fn names_of_model(model: &str) -> impl Iterator<Item = String> {
    let disks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let is_it = move |name: &String| {
        let found = fs::read_to_string(format!("/sys/block/{name}/device/model"));
        found.is_ok_and(|found| found.trim() == model)
            && Path::new("/dev").join(name).exists()
            && fs::read_to_string(format!("/sys/block/{name}/size"))
                .is_ok_and(|size| size.trim() != "0")
    };
    disks.filter_map(|disk| disk.file_name().into_string().ok()).filter(is_it)
}

/// Waits for something that the kernel makes.
pub(crate) fn wait_for<T>(find: impl Fn() -> Option<T>) -> T {
    let patience = host::Patience::new(60_000);
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(patience.pause(), "it does not appear");
    }
}

fn write(path: &Path, words: &str) {
    let mut file = OpenOptions::new().write(true).open(path);
    let written = file
        .as_mut()
        .map_err(|error| error.to_string())
        .and_then(|file| file.write_all(words.as_bytes()).map_err(|error| error.to_string()));
    written.unwrap_or_else(|error| panic!("{} = {words}: {error}", path.display()));
}

/// Answers the kernel's commands on another thread.
fn serve(disk: Arc<Mutex<Disk>>) {
    let device: PathBuf = wait_for(|| {
        let devices = fs::read_dir("/sys/class/uio").into_iter().flatten().flatten();
        let is_it = |path: &PathBuf| {
            let name = fs::read_to_string(path.join("name")).unwrap_or_default();
            let node = Path::new("/dev").join(path.file_name().unwrap_or_default());
            name.contains("simulated/disk") && node.exists()
        };
        devices.map(|entry| entry.path()).find(is_it)
    });
    let size = fs::read_to_string(device.join("maps/map0/size")).expect("a map");
    let bytes = usize::from_str_radix(size.trim().trim_start_matches("0x"), 16).expect("a size");
    let node = Path::new("/dev").join(device.file_name().expect("a name"));
    let mut events: File = OpenOptions::new().read(true).write(true).open(node).expect("root");
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of a device that the kernel shares with its user.
    let start = unsafe {
        mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, &events, 0).expect("shared")
    };
    let ring = Ring { start: start.cast(), bytes };
    std::thread::spawn(move || {
        let ring = ring;
        loop {
            ring.answer(&disk);
            events.write_all(&0u32.to_ne_bytes()).expect("the kernel listens");
            let mut count = [0; 4];
            events.read_exact(&mut count).expect("the kernel answers");
        }
    });
}
