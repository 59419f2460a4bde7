//! The formats: one file each, with the layout, the units and their source.

pub(crate) mod alibaba;
pub(crate) mod arc;
pub(crate) mod blkparse;
pub(crate) mod csv;
pub(crate) mod disksim;
pub(crate) mod mqsim;
pub(crate) mod msr;
pub(crate) mod oracle_general;
pub(crate) mod recorded;
pub(crate) mod spc;
pub(crate) mod ssdsim;
pub(crate) mod tencent;
pub(crate) mod vscsi;

/// The content of a line or record: an access, nothing, or why it is invalid.
pub(crate) type Found = Result<Option<crate::Access>, &'static str>;

/// The value that marks a read in the five columns of SSDsim, MQSim and DiskSim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadIs {
    /// 1, as in the published files.
    One,
    /// 0, as in other dialects.
    Zero,
}

impl ReadIs {
    pub(crate) fn direction(self, flag: u64) -> crate::Direction {
        let is_read = (flag == 1) == (self == ReadIs::One);
        if is_read { crate::Direction::Read } else { crate::Direction::Write }
    }
}
