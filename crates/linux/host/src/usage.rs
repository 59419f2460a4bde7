//! Counts of the kernel for this process and for its threads (getrusage(2)).
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Page faults of this process since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Served from memory.
    pub minor: u64,
    /// Served by reading from a file or from swap.
    pub major: u64,
}

/// Returns the number of page faults of this process.
pub fn faults() -> Faults {
    let usage = usage(libc::RUSAGE_SELF);
    Faults { minor: usage.ru_minflt as u64, major: usage.ru_majflt as u64 }
}

/// Returns the number of times that this thread gave up its processor to wait for an event. A
/// switch to another thread because its time was over does not count. A system call: some 200 ns.
pub fn voluntary_switches() -> u64 {
    usage(libc::RUSAGE_THREAD).ru_nvcsw as u64
}

fn usage(who: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills in the structure, which is valid as zeros in any case.
    unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_touches_are_counted() {
        let before = faults();
        let memory = block::Memory::heap(8 << 20);
        for page in 0..2048 {
            memory.write(page * 4096, &[1]);
        }
        let after = faults();
        assert!(after.minor >= before.minor + 4, "{before:?} {after:?}");
        assert!(after.major >= before.major);
    }
}
