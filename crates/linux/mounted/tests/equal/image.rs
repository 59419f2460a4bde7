//! Images with file systems, and their mounts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// Options of mkfs.ext4: forms of metadata, of block lists, of directories.
pub(crate) const EXT4: &[&str] = &[
    "",
    "-b 1024",
    "-b 2048 -O ^64bit",
    "-t ext2",
    "-t ext3 -b 1024",
    "-O inline_data -I 256",
    "-O inline_data -I 1024",
    "-O bigalloc -C 65536",
    "-O bigalloc -b 1024 -C 16384",
    "-O meta_bg,^resize_inode -b 1024 -g 256",
    "-O ^flex_bg,^sparse_super,^resize_inode -b 1024 -g 2048",
    "-O sparse_super2 -E num_backup_sb=2",
    "-O orphan_file",
    "-O ^metadata_csum,uninit_bg",
    "-O mmp,large_dir -I 128",
];

/// Options of mkfs.xfs: sizes of blocks, directories and inodes, trees of owners.
pub(crate) const XFS: &[&str] = &[
    "",
    "-b size=1024",
    "-n size=16384 -i size=1024",
    "-m reflink=0,finobt=0,rmapbt=0 -i sparse=0",
    "-m rmapbt=1 -b size=2048",
    "-i maxpct=10 -s size=4096 -d agcount=3",
];

/// An image with a file system that was just made.
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Maximum number of bytes without a class.
    pub(crate) unexplained_bytes: u64,
    is_xfs: bool,
    directory: TempDir,
    /// One image at a time: a program that another test starts has copies of this process's files
    /// for a moment, which keep the mount busy.
    _alone: MutexGuard<'static, ()>,
}

/// Rounds of 50 ms within which the last copy of a mount ends.
const UNMOUNT_ROUNDS: u32 = 600;

static ALONE: Mutex<()> = Mutex::new(());

pub(crate) fn run(program: &str, arguments: &[&str], directory: &Path) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    let status = command.args(arguments).current_dir(directory).env("PATH", path).status();
    status.is_ok_and(|status| status.success())
}

fn output(program: &str, arguments: &[&str]) -> String {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).env("PATH", path).output();
    String::from_utf8_lossy(&output.expect("the program runs").stdout).into_owned()
}

impl Image {
    fn make(program: &str, mib: u64, options: &str, quiet: &[&str]) -> Image {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // Images in memory are quicker to sync.
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let directory = made.expect("a directory");
        let path = directory.path().join("image");
        fs::File::create(&path).and_then(|file| file.set_len(mib << 20)).expect("a file");
        let name = format!("{program} {options}");
        let options = options.split(' ').filter(|option| !option.is_empty());
        let arguments: Vec<&str> = quiet.iter().copied().chain(options).chain(["image"]).collect();
        assert!(run(program, &arguments, directory.path()), "{name}");
        let is_xfs = program == "mkfs.xfs";
        // Blocks of attributes; and clusters that are allocated, but longer than the file.
        let unexplained_bytes = if name.contains("bigalloc") { 24 << 20 } else { 1 << 16 };
        Image { name, path, unexplained_bytes, is_xfs, directory, _alone: alone }
    }

    pub(crate) fn ext4(options: &str) -> Image {
        Image::make("mkfs.ext4", 96, options, &["-q", "-F", "-m", "0", "-N", "8192"])
    }

    pub(crate) fn xfs(options: &str) -> Image {
        Image::make("mkfs.xfs", 320, options, &["-q", "-f"])
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.path.metadata().expect("an image").len()
    }

    /// Mounts the image. None, with a message: this user cannot.
    pub(crate) fn mount(&self) -> Option<Mount> {
        let point = self.directory.path().join("mount");
        fs::create_dir_all(&point).expect("made");
        let arguments = ["-o", "loop", "image", "mount"];
        let mounted =
            rustix::process::geteuid().is_root() && run("mount", &arguments, self.directory.path());
        if !mounted {
            println!(
                "skipped: {} cannot be mounted, which needs root and a loop device",
                self.name
            );
            return None;
        }
        Some(Mount { point })
    }

    /// Returns the free bytes of the image, as the tools of the file system count them.
    pub(crate) fn free_bytes(&self) -> u64 {
        let path = self.path.to_str().expect("plain");
        if self.is_xfs {
            let query = |commands: &[&str]| {
                let commands = commands.iter().flat_map(|command| ["-c", *command]);
                let arguments: Vec<&str> =
                    ["-r"].into_iter().chain(commands).chain([path]).collect();
                output("xfs_db", &arguments)
            };
            let groups = after(&query(&["sb 0", "p agcount"]), "agcount = ");
            let block = after(&query(&["sb 0", "p blocksize"]), "blocksize = ");
            // The first number includes the blocks that are reserved for the trees.
            let reserved =
                |group: u64| after(&query(&[&format!("agf {group}"), "p flcount"]), "flcount = ");
            let reserved: u64 = (0..groups).map(reserved).sum();
            return (after(&query(&["freesp -s"]), "total free blocks ") - reserved) * block;
        }
        let text = output("dumpe2fs", &["-h", path]);
        after(&text, "Free blocks:") * after(&text, "Block size:")
    }
}

/// Returns the number after these words.
fn after(text: &str, words: &str) -> u64 {
    let rest = text.split_once(words).unwrap_or_else(|| panic!("{words:?} in {text}")).1;
    let number = rest.split_whitespace().next().expect("a number");
    number.parse().expect("a number")
}

/// A mounted image.
pub(crate) struct Mount {
    pub(crate) point: PathBuf,
}

impl Mount {
    /// Writes everything to the image.
    pub(crate) fn sync(&self) {
        let directory = fs::File::open(&self.point).expect("mounted");
        rustix::fs::syncfs(directory).expect("synced");
    }

    /// Waits until the image has no loop device. A test beside this one may copy all mounts into a
    /// name space of its own; the free blocks are written when the last copy ends.
    #[expect(clippy::disallowed_methods, reason = "a test waits for the kernel, outside of lanes")]
    fn wait_until_written(&self) {
        let image = self.point.with_file_name("image");
        let image = image.to_str().expect("plain");
        for _ in 0..UNMOUNT_ROUNDS {
            if output("losetup", &["-j", image]).is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let directory = self.point.parent().expect("a directory");
        let is_unmounted = run("umount", &["mount"], directory);
        assert!(is_unmounted || std::thread::panicking(), "{}", self.point.display());
        self.wait_until_written();
    }
}
