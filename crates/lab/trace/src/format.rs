//! The formats by name.

/// The formats that a [`Reader`](crate::Reader) reads. Their layouts and sources are in `formats/`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// This project's own recordings.
    Recording,
    /// vscsiStats records, version 1 or 2 (CloudPhysics).
    Vscsi,
    /// SSDsim's columns, 1 = read.
    Ssdsim,
    /// SSDsim's columns in nanoseconds, 0 = read.
    SsdsimZeroReads,
    /// MQSim's columns, 1 = read.
    Mqsim,
    /// DiskSim's columns, bit 0 of the flags = read.
    Disksim,
    /// DiskSim's columns in milliseconds, 0 = read.
    DisksimZeroReads,
    /// MSR Cambridge CSV.
    Msr,
    /// Alibaba's block traces of 2020.
    Alibaba,
    /// Tencent's cloud block storage traces.
    Tencent,
    /// The Storage Performance Council's ASCII format (UMass).
    Spc,
    /// blkparse's text, events Q.
    Blkparse,
    /// blkparse's text, events D.
    BlkparseSent,
    /// libCacheSim's oracleGeneral; an object is the first sector of a request.
    OracleGeneral,
    /// libCacheSim's oracleGeneral; each object is a separate block.
    OracleGeneralObjects,
    /// The text of ARC's traces; each block is a page of 4 KiB.
    Arc,
    /// The text of ARC's traces; a block is a sector of 512 bytes.
    ArcSectors,
    /// Lines `op offset length`.
    Csv,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 18] = [
        Format::Recording,
        Format::Vscsi,
        Format::Ssdsim,
        Format::SsdsimZeroReads,
        Format::Mqsim,
        Format::Disksim,
        Format::DisksimZeroReads,
        Format::Msr,
        Format::Alibaba,
        Format::Tencent,
        Format::Spc,
        Format::Blkparse,
        Format::BlkparseSent,
        Format::OracleGeneral,
        Format::OracleGeneralObjects,
        Format::Arc,
        Format::ArcSectors,
        Format::Csv,
    ];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Recording => "recording",
            Format::Vscsi => "vscsi",
            Format::Ssdsim => "ssdsim",
            Format::SsdsimZeroReads => "ssdsim-0-reads",
            Format::Mqsim => "mqsim",
            Format::Disksim => "disksim",
            Format::DisksimZeroReads => "disksim-0-reads",
            Format::Msr => "msr",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Spc => "spc",
            Format::Blkparse => "blkparse",
            Format::BlkparseSent => "blkparse-d",
            Format::OracleGeneral => "oracleGeneral",
            Format::OracleGeneralObjects => "oracleGeneral-objects",
            Format::Arc => "arc",
            Format::ArcSectors => "arc-512",
            Format::Csv => "csv",
        }
    }

    /// Returns the format of this name, ignoring case.
    pub fn by_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(name))
    }

    /// Whether it consists of records instead of lines.
    pub fn is_binary(self) -> bool {
        match self {
            Format::Recording
            | Format::Vscsi
            | Format::OracleGeneral
            | Format::OracleGeneralObjects => true,
            Format::Ssdsim
            | Format::SsdsimZeroReads
            | Format::Mqsim
            | Format::Disksim
            | Format::DisksimZeroReads
            | Format::Msr
            | Format::Alibaba
            | Format::Tencent
            | Format::Spc
            | Format::Blkparse
            | Format::BlkparseSent
            | Format::Arc
            | Format::ArcSectors
            | Format::Csv => false,
        }
    }

    /// Whether it distinguishes reads from writes.
    pub fn has_directions(self) -> bool {
        !matches!(
            self,
            Format::OracleGeneral | Format::OracleGeneralObjects | Format::Arc | Format::ArcSectors
        )
    }
}
