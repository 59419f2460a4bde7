//! Attributes by drive family: figure and unit of each id.
//!
//! Source of every row, unless a comment names another: the drive database of smartmontools
//! (drivedb.h 7.3/5319 of 2022-02-19, and lib/drivedb.h of 2025), which is GPL; the facts were
//! listed again here. The id decides, because that database gives one name to several attributes of
//! a drive, and an older copy of it may not contain the drive at all.

/// A figure of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Figure {
    HostWritten,
    HostRead,
    FlashWritten,
    /// Part of the flash writes (as SLC, as TLC); the parts of a family are added.
    FlashPart,
    /// Pages programmed for the host, and pages added by the firmware.
    HostPages,
    OwnPages,
    Worn,
    Spare,
    MediaErrors,
    Reallocated,
}

/// The unit in which an attribute contains its figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// The raw value counts units of this many bytes.
    Bytes(u64),
    /// The raw value is the figure.
    Count,
    /// The normalized value is the percentage left.
    Left,
    /// The normalized value is the percentage used.
    Used,
    /// The raw value is the percentage left; the normalized one repeats it or stays at 100.
    LeftInRaw,
    /// The normalized value is the percentage left, unless the raw value is another percentage.
    LeftIfAgreed,
}

/// A row of the table: an attribute by its id, its name, or both.
pub(super) struct Row {
    pub(super) id: Option<u64>,
    pub(super) name: Option<&'static str>,
    pub(super) figure: Figure,
    pub(super) unit: Unit,
}

/// Drives whose attributes have the same meaning.
pub(super) struct Family {
    /// Beginnings of the family's names in the drive database.
    database: &'static [&'static str],
    /// Beginnings of models' names, for a database that does not contain the drive.
    models: &'static [&'static str],
    /// Whether the drive compresses, so that it may write less than the host.
    pub(super) compresses: bool,
    /// Rows in the order of preference.
    pub(super) rows: &'static [Row],
}

use Figure::*;
use Unit::*;

pub(super) const GIB: u64 = 1 << 30;
const MIB_32: u64 = 32 << 20;
const GB: u64 = 1_000_000_000;

const fn row(id: u64, figure: Figure, unit: Unit) -> Row {
    Row { id: Some(id), name: None, figure, unit }
}

pub(super) const fn named(name: &'static str, figure: Figure, unit: Unit) -> Row {
    Row { id: None, name: Some(name), figure, unit }
}

/// Hard disks: sectors of 512 bytes.
pub(super) const DISK: Family = Family {
    database: &[],
    models: &[],
    compresses: false,
    rows: &[row(241, HostWritten, Bytes(512)), row(242, HostRead, Bytes(512))],
};

const HOST_32MIB: &[Row] =
    &[row(241, HostWritten, Bytes(MIB_32)), row(242, HostRead, Bytes(MIB_32))];

/// Returns the family of a drive: by its name in the database, else by its model.
pub(super) fn find(database: &str, model: &str) -> Option<&'static Family> {
    let begins = |text: &str, with: &[&str]| with.iter().any(|start| text.starts_with(start));
    let by_name = FAMILIES.iter().find(|family| begins(database, family.database));
    by_name.or_else(|| FAMILIES.iter().find(|family| begins(model, family.models)))
}

/// The families; if the beginnings of several match, the first counts.
static FAMILIES: &[Family] = &[
    Family {
        // 233 counts GiB to the flash, 234 GiB of the host: Kingston's description of the SV300.
        database: &["SandForce Driven"],
        models: &["KINGSTON SV300S3", "OCZ-VERTEX3", "OCZ-AGILITY3", "SandForce"],
        compresses: true,
        rows: &[
            row(241, HostWritten, Bytes(GIB)),
            row(242, HostRead, Bytes(GIB)),
            row(233, FlashWritten, Bytes(GIB)),
            row(231, Worn, Left),
        ],
    },
    Family {
        // Intel's drives with a SandForce controller.
        database: &["Intel 520 ", "Intel 525 ", "Intel 53x ", "Intel 330/335 "],
        models: &["INTEL SSDSC2CW", "INTEL SSDSC2BW", "INTEL SSDSC2CT", "INTEL SSDMCEA"],
        compresses: true,
        rows: &[
            row(225, HostWritten, Bytes(MIB_32)),
            row(241, HostWritten, Bytes(MIB_32)),
            row(242, HostRead, Bytes(MIB_32)),
            row(249, FlashWritten, Bytes(GIB)),
            row(233, Worn, Left),
            row(232, Spare, Left),
        ],
    },
    Family {
        // 233 counts host writes too; 241 and 242 have the unit of 225.
        database: &["Dell Certified Intel"],
        models: &["SSDSCKJB", "SSDSC2JB", "SSDSC2KB", "SSDSCKKB", "SSDSC2KG"],
        compresses: false,
        rows: &[
            row(225, HostWritten, Bytes(MIB_32)),
            row(241, HostWritten, Bytes(MIB_32)),
            row(242, HostRead, Bytes(MIB_32)),
            row(245, Worn, LeftIfAgreed),
            row(232, Spare, Left),
            row(195, MediaErrors, Count),
        ],
    },
    Family {
        database: &["Intel ", "Kingston branded X25-V"],
        models: &["INTEL SSD"],
        compresses: false,
        rows: &[
            row(225, HostWritten, Bytes(MIB_32)),
            row(241, HostWritten, Bytes(MIB_32)),
            row(242, HostRead, Bytes(MIB_32)),
            row(243, FlashWritten, Bytes(MIB_32)),
            row(249, FlashWritten, Bytes(GIB)),
            row(233, Worn, Left),
            row(232, Spare, Left),
        ],
    },
    Family {
        // 177: Samsung's white paper 07 on SMART; its raw value counts erase cycles.
        database: &["Samsung based"],
        models: &["Samsung SSD", "SAMSUNG SSD", "SAMSUNG MZ7"],
        compresses: false,
        rows: &[
            row(241, HostWritten, Bytes(512)),
            row(242, HostRead, Bytes(512)),
            row(249, FlashWritten, Bytes(GIB)),
            row(177, Worn, Left),
            row(179, Spare, Left),
        ],
    },
    Family {
        // The units are from Micron's technical note TN-FD-22.
        database: &["Crucial/Micron Client", "Micron 5100", "Micron M500DC"],
        models: &["Crucial_CT", "Micron_"],
        compresses: false,
        rows: &[
            Row {
                id: Some(246),
                name: Some("Total_LBAs_Written"),
                figure: HostWritten,
                unit: Bytes(512),
            },
            row(247, HostPages, Count),
            row(248, OwnPages, Count),
            row(202, Worn, Left),
        ],
    },
    Family {
        // The raw value of 202 is the percentage used.
        database: &["Crucial/Micron RealSSD"],
        models: &["M4-CT", "C300-CTFDDA", "C400-MTFDDA"],
        compresses: false,
        rows: &[row(202, Worn, LeftIfAgreed)],
    },
    Family {
        // 231: the normalized value stays at 100 on many drives.
        database: &["Phison Driven"],
        models: &["KINGSTON SKC400", "KINGSTON SA400S37", "KINGSTON SEDC400"],
        compresses: false,
        rows: &[
            row(241, HostWritten, Bytes(GIB)),
            row(242, HostRead, Bytes(GIB)),
            row(233, FlashWritten, Bytes(GIB)),
            row(231, Worn, LeftInRaw),
        ],
    },
    Family {
        database: &["Indilinx Barefoot 3", "OCZ Intrepid 3000"],
        models: &["OCZ-VECTOR", "OCZ-VERTEX460", "OCZ-ARC100", "OCZ-SABER1000"],
        compresses: false,
        rows: &[
            row(241, HostWritten, Bytes(GIB)),
            row(199, HostWritten, Bytes(GIB)),
            row(242, HostRead, Bytes(GIB)),
            row(198, HostRead, Bytes(GIB)),
            row(249, FlashWritten, Bytes(GIB)),
            row(233, Worn, LeftIfAgreed),
            row(187, MediaErrors, Count),
        ],
    },
    Family {
        // 198 and 199 count sectors here, not errors.
        database: &["Indilinx Barefoot based"],
        models: &[],
        compresses: false,
        rows: &[row(199, HostWritten, Bytes(512)), row(198, HostRead, Bytes(512))],
    },
    Family {
        // smartmontools' issue 312 measured the unit.
        database: &["Toshiba HK4R"],
        models: &["TOSHIBA THNSN8"],
        compresses: false,
        rows: HOST_32MIB,
    },
    Family {
        database: &["Plextor M3/M5", "InnoDisk iCF", "StorFly CFast"],
        models: &["PLEXTOR PX-"],
        compresses: false,
        rows: HOST_32MIB,
    },
    Family {
        database: &["Innodisk 3IE2"],
        models: &[],
        compresses: false,
        rows: &[
            row(241, HostWritten, Bytes(MIB_32)),
            row(242, HostRead, Bytes(MIB_32)),
            row(233, FlashWritten, Bytes(MIB_32)),
            row(169, Worn, LeftInRaw),
        ],
    },
    Family {
        // 225 counts writes of a log here.
        database: &["Innodisk 1IE3"],
        models: &[],
        compresses: false,
        rows: &[
            row(241, HostWritten, Bytes(MIB_32)),
            row(242, HostRead, Bytes(MIB_32)),
            row(169, Worn, LeftInRaw),
        ],
    },
    Family {
        database: &["Silicon Motion based"],
        models: &[],
        compresses: false,
        rows: &[
            row(241, HostWritten, Bytes(MIB_32)),
            row(225, HostWritten, Bytes(MIB_32)),
            row(242, HostRead, Bytes(MIB_32)),
            row(245, FlashPart, Bytes(MIB_32)),
            row(246, FlashPart, Bytes(MIB_32)),
            row(169, Worn, LeftInRaw),
            row(231, Worn, LeftIfAgreed),
            row(160, MediaErrors, Count),
        ],
    },
    Family {
        database: &["Kingston SSDNow UV400/500"],
        models: &["KINGSTON SUV400", "KINGSTON SUV500"],
        compresses: false,
        rows: &[
            row(241, HostWritten, Bytes(GIB)),
            row(242, HostRead, Bytes(GIB)),
            row(231, Worn, LeftIfAgreed),
        ],
    },
    Family {
        database: &["Marvell based SanDisk"],
        models: &[],
        compresses: false,
        rows: &[
            row(241, HostWritten, Bytes(GIB)),
            row(242, HostRead, Bytes(GIB)),
            row(233, FlashWritten, Bytes(GIB)),
            row(232, Spare, LeftIfAgreed),
        ],
    },
    Family {
        // 230 counts up. The unit of 233 and 234 (TLC, SLC) is not published.
        database: &["WD Blue / Red / Green SSDs"],
        models: &["WDC WDS", "WDC  WDS", "WDC WDBNCE", "WDC  WDBNCE"],
        compresses: false,
        rows: &[
            row(241, HostWritten, Bytes(GIB)),
            row(242, HostRead, Bytes(GIB)),
            row(230, Worn, Used),
            row(232, Spare, Left),
        ],
    },
    Family {
        // Their controllers are SandForce's successors, and compress.
        database: &["Seagate IronWolf 110", "Seagate Nytro SATA"],
        models: &[],
        compresses: true,
        rows: &[
            row(241, HostWritten, Bytes(GB)),
            row(242, HostRead, Bytes(GB)),
            row(233, FlashWritten, Bytes(GB)),
            row(231, Worn, LeftIfAgreed),
            row(187, MediaErrors, Count),
        ],
    },
    Family {
        database: &["Seagate IronWolf Pro 125"],
        models: &["Seagate IronWolfPro"],
        compresses: false,
        rows: &[
            row(241, HostWritten, Bytes(GIB)),
            row(242, HostRead, Bytes(GIB)),
            row(233, FlashWritten, Bytes(GIB)),
            row(231, Worn, LeftIfAgreed),
        ],
    },
];
