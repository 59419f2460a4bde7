//! Devices of the kernel's ublk driver: commands to it, and the queues of a device on a ring. The
//! crate `ublk` defines the contents of the bytes.
//!
//! Sources: include/uapi/linux/ublk_cmd.h, Documentation/block/ublk.rst, drivers/block/ublk_drv.c
//! of Linux 6.12.

mod control;
mod queue;

pub use control::UblkControl;
pub use queue::UblkQueue;
