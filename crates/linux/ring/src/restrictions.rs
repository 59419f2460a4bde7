//! The operations that a ring accepts. A seccomp filter does not see what is submitted to a ring,
//! so each ring is restricted itself, before its first operation and for good
//! (io_uring_register(2), IORING_REGISTER_RESTRICTIONS). None of these operations opens a file or
//! makes a socket: a ring only reaches what the process has opened.

use io_uring::{IoUring, cqueue, opcode, register::Restriction, squeue};
use std::io;

/// Registration of files, and changes of that table (include/uapi/linux/io_uring.h):
/// [`crate::Fence`].
const REGISTER_FILES: u8 = 2;
const REGISTER_FILES_UPDATE: u8 = 6;

/// Operations of a lane's ring: on files, on connected sockets, and of the driver ublk.
const OF_LANES: [u8; 11] = [
    opcode::Read::CODE,
    opcode::Readv::CODE,
    opcode::Write::CODE,
    opcode::Writev::CODE,
    opcode::Fsync::CODE,
    opcode::Fallocate::CODE,
    opcode::PollAdd::CODE,
    opcode::Recv::CODE,
    opcode::SendMsg::CODE,
    opcode::UringCmd16::CODE,
    opcode::AsyncCancel2::CODE,
];

/// Enables a lane's ring, which was created disabled, for the operations of lanes alone.
///
/// # Errors
/// The system's errors, for example of a seccomp filter that forbids io_uring_register(2).
pub(crate) fn enable_for_lane(uring: &IoUring) -> io::Result<()> {
    let operations = OF_LANES.map(Restriction::sqe_op);
    let registers = [REGISTER_FILES, REGISTER_FILES_UPDATE].map(Restriction::register_op);
    let flags = [Restriction::sqe_flags_allowed(squeue::Flags::ASYNC.bits())];
    enable(uring, operations.into_iter().chain(registers).chain(flags))
}

/// Enables a ring, which was created disabled, for commands to a driver alone.
///
/// # Errors
/// As [`enable_for_lane`].
pub(crate) fn enable_for_commands(
    uring: &IoUring<squeue::Entry128, cqueue::Entry>,
) -> io::Result<()> {
    enable(uring, [Restriction::sqe_op(opcode::UringCmd80::CODE)])
}

fn enable<S: squeue::EntryMarker>(
    uring: &IoUring<S, cqueue::Entry>,
    restrictions: impl IntoIterator<Item = Restriction>,
) -> io::Result<()> {
    let mut restrictions: Vec<Restriction> = restrictions.into_iter().collect();
    uring.submitter().register_restrictions(&mut restrictions)?;
    uring.submitter().register_enable_rings()
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use crate::flight::Hold;
    use crate::ring::{Ring, build};
    use io_uring::{opcode, squeue, types};
    use lane::Lane;
    use std::os::fd::AsRawFd;

    /// Returns the ring's answer to an operation.
    fn answer(ring: &Ring, entry: squeue::Entry) -> i64 {
        // SAFETY: the entries of these tests contain numbers, and names that are constants.
        let ticket = unsafe { ring.launch(entry, Hold::default()) };
        ring.block_on(ticket).expect("the loop runs")
    }

    fn opening(flags: i32) -> squeue::Entry {
        opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), c"/dev/null".as_ptr()).flags(flags).build()
    }

    #[test]
    fn a_ring_refuses_operations_that_no_lane_uses() {
        let ring = Ring::new(&Lane::new()).expect("io_uring works here");
        let refused = -i64::from(libc::EACCES);
        for entry in [
            opening(libc::O_RDONLY),
            opcode::Socket::new(libc::AF_UNIX, libc::SOCK_STREAM, 0).build(),
            opcode::UnlinkAt::new(types::Fd(libc::AT_FDCWD), c"/nowhere/a".as_ptr()).build(),
            opcode::Close::new(types::Fd(i32::MAX)).build(),
            opcode::Nop::new().build(),
        ] {
            assert_eq!(answer(&ring, entry), refused);
        }
        // A permitted operation, and one of its flags that is not permitted.
        let file = std::fs::File::open("/dev/null").expect("Linux has it");
        let sync = opcode::Fsync::new(types::Fd(file.as_raw_fd())).build();
        assert_ne!(answer(&ring, sync.clone()), refused);
        assert_eq!(answer(&ring, sync.flags(squeue::Flags::IO_LINK)), refused);
    }

    #[test]
    fn a_ring_refuses_registrations_that_no_lane_uses() {
        let uring = build().expect("io_uring works here");
        let refused = uring.submitter().register_personality().expect_err("not permitted");
        assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
        let again = uring.submitter().register_enable_rings().expect_err("it is enabled");
        assert!(again.raw_os_error().is_some());
    }
}
