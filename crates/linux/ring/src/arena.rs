//! Shared memory for the arena: a memfd that another process can hold, mapped, populated, and
//! excluded from core dumps.
#![allow(unsafe_code)]

use block::Memory;
use host::{HUGE, huge_pages_free};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MlockFlags, ProtFlags};
use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// Size of the smallest page.
const PAGE: usize = 4096;
/// Bytes populated between two calls of `progress`.
const CHUNK: usize = 32 << 20;

/// Whether to use 2 MiB pages of the system's pool. (Transparent huge pages are requested in any
/// case.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HugePages {
    /// Do not use them.
    Never,
    /// Use them if enough of them are free.
    #[default]
    IfFree,
    /// Fail if there are not enough.
    Require,
}

struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is only an address range that is unmapped once, on drop; any thread may do
// that.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives no access.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this process has mapped it with this length, and the Memory that owned it is
        // gone.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own");
    }
}

/// Memory that is shared by its descriptor. It exists as long as a process has the descriptor or
/// maps the memory.
pub struct SharedMemory {
    memory: Arc<Memory>,
    file: OwnedFd,
    huge: bool,
    /// The parts in use, ascending and disjoint.
    used: Vec<Range<usize>>,
}

impl SharedMemory {
    /// Returns the memory. It stays mapped as long as any clone exists.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Whether it consists of 2 MiB pages of the system's pool.
    pub fn has_huge_pages(&self) -> bool {
        self.huge
    }

    /// Returns the descriptor, to be passed to another process.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Maps memory that [`shared_memory`] has created, in this process or another, from its
    /// descriptor. Its pages are allocated, but each is entered in the page table on its first use,
    /// or by [`SharedMemory::warm`].
    ///
    /// # Errors
    /// It is not a memfd sealed against changes of its size, or cannot be mapped.
    pub fn adopt(file: OwnedFd) -> io::Result<SharedMemory> {
        let (bytes, huge) = check_handed_over(&file)?;
        let memory = map(&file, bytes)?;
        Ok(SharedMemory { memory, file, huge, used: whole(bytes) })
    }

    /// Enters the pages in use in the page table, on a separate thread, so that no later access
    /// faults. Call it after [`host::signals`], like everything that starts a thread. If no thread
    /// can be started, each page is entered on its first use.
    pub fn warm(&self) -> Option<JoinHandle<()>> {
        let (memory, used) = (self.memory.clone(), self.used.clone());
        // Populating for reading is enough for writes, because the mapping is shared, and the
        // kernel then enters sixteen pages at a time (0.3 instead of 0.7 s for 4 GiB).
        let work = move || {
            // Pages that cannot be entered now fault later, or that access fails with the real
            // error.
            let _ = populate(&memory, &used, Advice::LinuxPopulateRead, &mut |_, _| ());
        };
        std::thread::Builder::new().name("od-warm".into()).spawn(work).ok()
    }

    /// Maps memory as [`SharedMemory::adopt`] does, but allocates no pages for the mapping. For
    /// reading a small part of it.
    ///
    /// # Errors
    /// As [`SharedMemory::adopt`].
    pub fn peek(file: BorrowedFd<'_>) -> io::Result<Arc<Memory>> {
        let file = file.try_clone_to_owned()?;
        let (bytes, _) = check_handed_over(&file)?;
        Ok(map(&file, bytes)?)
    }

    /// Locks the parts in use in RAM: a page is never swapped out once it has been accessed. Huge
    /// pages are never swapped, and need no lock.
    ///
    /// # Errors
    /// A sentence with the permitted amount (RLIMIT_MEMLOCK), and how to raise it.
    pub fn lock(&self) -> io::Result<()> {
        if self.huge {
            return Ok(());
        }
        self.used.iter().try_for_each(|part| {
            let at = self.memory.address(part.start, part.len()).as_ptr();
            // Locks each page on its first use, so that adopted memory can be served immediately.
            let flags = MlockFlags::ONFAULT;
            // SAFETY: the mapping belongs to this object; locking does not change its contents, and
            // ends with the mapping.
            let locked = unsafe { rustix::mm::mlock_with(at.cast(), part.len(), flags) };
            locked.map_err(|errno| host::cannot_lock("the cache's memory", errno))
        })
    }

    /// Sets the parts in use, ascending and disjoint. For adopted memory, all of it was in use
    /// before.
    pub fn set_used(&mut self, used: Vec<Range<usize>>) {
        self.used = used;
    }

    /// Allocates the missing pages of the parts in use, about `bytes` bytes.
    ///
    /// # Errors
    /// As [`shared_memory_of`].
    pub fn back(&self, bytes: usize, progress: &mut dyn FnMut(usize, usize)) -> io::Result<()> {
        let text = fs::read_to_string("/proc/meminfo")?;
        let enough = if self.huge { huge_pages_free } else { host::enough_memory };
        enough(&text, bytes).map_err(out_of_memory)?;
        populate(&self.memory, &self.used, Advice::LinuxPopulateWrite, progress).map_err(|errno| {
            match errno {
                // The kernel's error when the pool of huge pages is empty.
                Errno::FAULT => out_of_memory("there are not enough huge pages".to_owned()),
                _ => errno.into(),
            }
        })
    }

    /// Releases all pages outside the parts in use to the system.
    ///
    /// # Errors
    /// The system's errors.
    pub fn give_back_unused(&self) -> io::Result<()> {
        let page = if self.huge { HUGE } else { rustix::param::page_size() };
        let ends = self.used.iter().map(|part| part.end.next_multiple_of(page));
        let begins = self.used.iter().skip(1).map(|part| part.start / page * page);
        for (begin, end) in ends.zip(begins.chain([self.memory.bytes()])) {
            if begin < end {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&self.file, flags, begin as u64, (end - begin) as u64)?;
            }
        }
        Ok(())
    }
}

/// Returns the single part that covers a whole memory.
fn whole(bytes: usize) -> Vec<Range<usize>> {
    std::iter::once(0..bytes).collect()
}

/// Returns the size of received memory, and whether it consists of huge pages.
fn check_handed_over(file: &OwnedFd) -> io::Result<(usize, bool)> {
    let seals = rustix::fs::fcntl_get_seals(file).unwrap_or(SealFlags::empty());
    // Without the seal, other holders could truncate the memory, and an access would cause a
    // SIGBUS.
    if !seals.contains(SealFlags::SHRINK) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the received memory is not a memfd sealed against shrinking, so it is not of \
             Overdrive",
        ));
    }
    let found = rustix::fs::fstat(file)?;
    let bytes = usize::try_from(found.st_size)
        .ok()
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the memory is empty"))?;
    let huge = found.st_blksize as usize >= HUGE;
    Ok((bytes, huge))
}

fn out_of_memory(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, message)
}

fn create(name: &str, bytes: usize, huge: bool) -> Result<(OwnedFd, Arc<Memory>), Errno> {
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if huge {
        flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    }
    let file = rustix::fs::memfd_create(name, flags)?;
    rustix::fs::ftruncate(&file, bytes as u64)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    let memory = map(&file, bytes)?;
    Ok((file, memory))
}

fn map(file: &OwnedFd, bytes: usize) -> Result<Arc<Memory>, Errno> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // No memory is reserved for unused parts; the parts in use are populated immediately.
    let flags = MapFlags::SHARED | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
    let base =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, flags, file, 0) }?;
    let base = NonNull::new(base.cast::<u8>()).ok_or(Errno::NOMEM)?;
    let mapping = Mapping { base, bytes };
    // Both are best effort: a kernel without transparent huge pages returns EINVAL.
    for advice in [Advice::LinuxDontDump, Advice::LinuxHugepage] {
        // SAFETY: the mapping belongs to this process; this advice does not change its contents.
        let _ = unsafe { rustix::mm::madvise(base.as_ptr().cast(), bytes, advice) };
    }
    // SAFETY: mapped readable and writable for this length, page-aligned, until `mapping` drops;
    // the seal prevents truncation.
    Ok(Arc::new(unsafe { Memory::mapped(base, bytes, Box::new(mapping)) }))
}

/// Allocates pages for these parts and enters them in the page table, so that no later write
/// faults. Existing pages are not changed.
fn populate(
    memory: &Memory,
    parts: &[Range<usize>],
    how: Advice,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), Errno> {
    let all = parts.iter().map(Range::len).sum();
    let mut done = 0;
    for part in parts {
        for begin in part.clone().step_by(CHUNK) {
            let piece = begin..part.end.min(begin + CHUNK);
            populate_piece(memory, piece.clone(), how)?;
            done += piece.len();
            progress(done, all);
        }
    }
    Ok(())
}

fn populate_piece(memory: &Memory, piece: Range<usize>, how: Advice) -> Result<(), Errno> {
    // Whole pages: the mapping begins at a page, and the memory at the mapping's first byte.
    let begin = piece.start / PAGE * PAGE;
    let length = piece.end.next_multiple_of(PAGE).min(memory.bytes()) - begin;
    let at = memory.address(begin, length).as_ptr().cast();
    loop {
        // SAFETY: the mapping belongs to this process; populating does not change its contents.
        match unsafe { rustix::mm::madvise(at, length, how) } {
            Ok(()) => return Ok(()),
            Err(Errno::INTR | Errno::AGAIN) => (),
            // Before Linux 5.14: touch each page without changing it.
            Err(Errno::INVAL) => {
                (begin..begin + length).step_by(PAGE).for_each(|at| {
                    memory.word(at).fetch_or(0, Ordering::Relaxed);
                });
                return Ok(());
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// Creates zeroed memory of at least `bytes` bytes (rounded up to whole pages) that can be shared
/// by its descriptor, with all pages allocated.
///
/// # Errors
/// As [`shared_memory_of`].
pub fn shared_memory(
    name: &str,
    bytes: usize,
    huge_pages: HugePages,
    progress: &mut dyn FnMut(usize, usize),
) -> io::Result<SharedMemory> {
    shared_memory_of(name, bytes, whole(bytes), huge_pages, progress)
}

/// Same as [`shared_memory`], with pages for these parts only (ascending, disjoint). The rest is
/// only address space.
///
/// `name` shows in /proc. `progress` is called with the bytes done and the total, since a gigabyte
/// takes up to a second.
///
/// # Errors
/// If there is not enough memory: a sentence with the requested and the available amount. Otherwise
/// the system's errors.
pub fn shared_memory_of(
    name: &str,
    bytes: usize,
    used: Vec<Range<usize>>,
    huge_pages: HugePages,
    progress: &mut dyn FnMut(usize, usize),
) -> io::Result<SharedMemory> {
    let text = fs::read_to_string("/proc/meminfo")?;
    if bytes == 0 || bytes > isize::MAX as usize - HUGE {
        let message = format!("{bytes} bytes are not a valid size for memory");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let used_bytes = used.iter().map(Range::len).sum::<usize>();
    if huge_pages != HugePages::Never {
        let rounded = bytes.next_multiple_of(HUGE);
        // A part may touch one more page at either end.
        let wanted = (used_bytes + used.len() * HUGE).min(rounded).next_multiple_of(HUGE);
        let had = huge_pages_free(&text, wanted)
            // Other programs may take pages of the pool after this check: then populating fails.
            .and_then(|()| create(name, rounded, true).map_err(|errno| errno.to_string()))
            .and_then(|(file, memory)| {
                match populate(&memory, &used, Advice::LinuxPopulateWrite, progress) {
                    Ok(()) => Ok((file, memory)),
                    Err(errno) => Err(errno.to_string()),
                }
            });
        match had {
            Ok((file, memory)) => {
                let huge = true;
                return Ok(SharedMemory { memory, file, huge, used });
            }
            Err(why) if huge_pages == HugePages::Require => return Err(out_of_memory(why)),
            Err(_) => (),
        }
    }
    host::enough_memory(&text, used_bytes).map_err(out_of_memory)?;
    let rounded = bytes.next_multiple_of(rustix::param::page_size());
    let (file, memory) = create(name, rounded, false)?;
    populate(&memory, &used, Advice::LinuxPopulateWrite, progress)?;
    Ok(SharedMemory { memory, file, huge: false, used })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_visible_through_the_descriptor() -> io::Result<()> {
        let mut last = (0, 0);
        let mut progress = |done, all| last = (done, all);
        let first = shared_memory("test", 40 << 20, HugePages::Never, &mut progress)?;
        assert_eq!(last, (40 << 20, 40 << 20));
        assert!(!first.has_huge_pages());
        first.memory().write(12345, b"hello");
        let second = SharedMemory::adopt(first.file().try_clone_to_owned()?)?;
        drop(first);
        let mut seen = [0; 5];
        second.memory().read(12345, &mut seen);
        assert_eq!(&seen, b"hello");
        Ok(())
    }

    #[test]
    fn too_many_huge_pages_are_refused_with_a_sentence() -> io::Result<()> {
        let text = fs::read_to_string("/proc/meminfo")?;
        let (all, used) = (HUGE << 12, std::iter::once(0..HUGE).collect());
        let had = shared_memory_of("test", all, used, HugePages::Require, &mut |_, _| ());
        let (Ok(mut shared), Err(_)) = (had, huge_pages_free(&text, all)) else {
            println!("skipped: there are none, or thousands");
            return Ok(());
        };
        shared.set_used(std::iter::once(0..all).collect());
        for bytes in [all, 0] {
            let refused = shared.back(bytes, &mut |_, _| ()).expect_err("more than there are");
            assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
            assert!(refused.to_string().contains("huge pages"), "{refused}");
        }
        Ok(())
    }

    #[test]
    fn the_size_is_sealed_and_unsealed_memory_is_refused() -> io::Result<()> {
        let shared = shared_memory("test", 4096, HugePages::IfFree, &mut |_, _| ())?;
        assert!(rustix::fs::ftruncate(shared.file(), 0).is_err());
        let plain = rustix::fs::memfd_create("plain", MemfdFlags::CLOEXEC)?;
        assert!(SharedMemory::adopt(plain).is_err());
        Ok(())
    }

    #[test]
    fn too_much_memory_is_refused_with_both_amounts() {
        let refused = shared_memory("test", 1 << 50, HugePages::Never, &mut |_, _| ());
        let message = refused.err().expect("a pebibyte").to_string();
        assert!(message.contains("1073741824 MiB of memory"), "{message}");
        assert!(message.contains("are available"), "{message}");
        assert!(shared_memory("test", 0, HugePages::Never, &mut |_, _| ()).is_err());
        assert!(shared_memory("test", usize::MAX, HugePages::IfFree, &mut |_, _| ()).is_err());
    }

    #[test]
    fn huge_pages_are_used_only_if_enough_are_free() -> io::Result<()> {
        let text = fs::read_to_string("/proc/meminfo")?;
        let required = shared_memory("test", HUGE, HugePages::Require, &mut |_, _| ());
        match (huge_pages_free(&text, HUGE), required) {
            (Ok(()), shared) => assert!(shared?.has_huge_pages()),
            (Err(_), refused) => {
                println!("no huge pages are reserved here: only their absence is tested");
                let message = refused.err().expect("none are free").to_string();
                assert!(message.contains("sysctl vm.nr_hugepages=1"), "{message}");
            }
        }
        Ok(())
    }
}
