//! Measurements of reviewers, and their methods: a line for each figure.

use super::Wanted::{Between, Least, Near};
use super::Worth::{Circular, Fitted, Predicted};
use super::{Class, Figure, Row, Wanted, Worth, class_of};
use crate::plan::Plan;
use crate::preparation::Preparation;
use crate::suite::find;
use crate::target::Target;

const SECOND: u64 = 1_000_000_000;
const GB: u64 = 1_000_000_000;
/// AnandTech's rates of 2008 to 2010, and AS SSD's, are in units of 2^20 bytes.
pub(super) const MIB: f64 = 1.048_576;

/// A test: the suite, its preparation, and its differences from the suite's defaults.
#[derive(Clone, Copy)]
struct Test {
    suite: &'static str,
    /// Preparation of the whole drive.
    state: &'static str,
    /// Preparation of the span. None: the suite's own.
    prepare: Option<&'static str>,
    seconds: Option<u64>,
    span_bytes: Option<u64>,
    spare_percent: u32,
    only: Option<&'static str>,
    era: Option<u16>,
}

const fn test(suite: &'static str, state: &'static str, prepare: Option<&'static str>) -> Test {
    let (seconds, span_bytes, only, era) = (None, None, None, None);
    Test { suite, state, prepare, seconds, span_bytes, spare_percent: 0, only, era }
}

/// Returns a test of sequential writes over this number of gigabytes of a new drive.
const fn fill(gb: u64) -> Test {
    Test { span_bytes: Some(gb * GB), ..test("seqfill", "fresh", None) }
}

/// Returns ht4u's test of sequential writes, by Iometer over all of the drive. Iometer ends by
/// time, which is not published: of a new 840 EVO it shows 289 MB/s, and 3 GB at 520 with the rest
/// at 269 to 283 MB/s have that mean after one to four minutes. Of the drive 10 GB are not in the
/// test's area; they are assumed to hold data, as all blocks were written before.
const fn iometer(steps: &'static str) -> Test {
    Test { seconds: Some(120), ..test("trim", "fresh", Some(steps)) }
}

/// Returns AnandTech's test of 2009 of random 4 KiB at a depth of 3, writes over 8 GB and reads
/// over the drive, on a drive in this state.
const fn corner(state: &'static str, steps: &'static str, only: &'static str) -> Test {
    Test { only: Some(only), era: Some(2009), ..test("fourcorners", state, Some(steps)) }
}

const CONSISTENCY: Test = test("consistency", "fresh", None);
const STEADY: &str = "from 1,400 s, mean of a second";
const CLEAN: &str = "clean: sequential 128 KiB write";
const DIRTY: &str = "dirty: sequential 128 KiB write";
const TRIMMED: &str = "trimmed: sequential 128 KiB write";
const QD3_WRITE: &str = "random 4 KiB write, QD3";
const QD3_READ: &str = "random 4 KiB read, QD3";
/// The state after a day of use, for reviews that say no more than "used".
const USED: &str = "fill,random:100%";
/// The same ten minutes later. Sequential writes of a heavily used 840 EVO were published at 440
/// MB/s, so its SLC area had been emptied.
const RESTED: &str = "fill,random:100%,idle:600s";
/// No two neighbours of the tested part were written together.
const SCATTERED: &str = "random:1000%";
/// More data than the unused blocks can hold.
const OVERWRITTEN: &str = "random:200%";
/// "After server load", and half an hour of idle time as between all of its tests: the load's
/// duration is not published.
const SERVER: &str = "fill,random:100%,idle:1800s,trim,idle:1800s";

/// Drive, test, row, published value, evidence, source.
type Line = (&'static str, Test, &'static str, Wanted, Worth, &'static str);

const TURBO: &str = "AnandTech 7173 p2";
const NATIVE: &str = "tecchannel 2075727,3";
const TURBO_SPEC: &str = "AnandTech 7173 p2, specification";
const HT4U: &str = "ht4u samsung840proevo p9";
const ANAND_STEADY: &str = "AnandTech 8747 p5";
const FACEOFF: &str = "AnandTech 8430";
const MSATA_REVIEW: &str = "AnandTech 7594";
/// The records do not say which of the two is the source.
const INTEL_REVIEWS: &str = "AnandTech 2808 or 3631";
const RAPID_REVIEW: &str = "a review of RAPID mode whose page is not recorded";
const ANTHOLOGY: &str = "AnandTech 2738";
const ANTHOLOGY_VERTEX: &str =
    "AnandTech 2738 p25; assumed: in the state of the Summit in the same article";
/// The program deletes its file after each run, which Windows 7 passes on as a TRIM.
const HT4U_AGAIN: &str =
    "ht4u samsung840proevo p9; assumed: a run after the TRIM of the file of the run before";

const UNRECORDED: &str = "a review whose page is not recorded";
/// Four at a time, over 8 GB of a new drive.
const QD4: Test =
    Test { only: Some("write, random 4 KiB, QD4"), ..test("corners", "fresh", Some("fresh")) };

const MSATA: Test = test("trim", "fresh", Some("torture-40m"));
const MSATA_HOUR: Test = test("trim", "fresh", Some("torture-60m"));
const REVO: Test = test("trim", "fresh", Some("torture-40m"));
const QD1: Test = Test { only: Some("random 4 KiB write, QD1"), ..test("qd1", "fresh", None) };

const COMPUTERBASE: &str = "computerbase 2013-04 p3";
const COMPUTERBASE_EVO: &str = "computerbase 2013-09 p2";

/// Returns AS SSD's test of sequential writes, one gigabyte.
const fn as_ssd(state: &'static str) -> Test {
    let only = Some("write, sequential 1 MiB, QD1");
    let span_bytes = Some(GB);
    Test { only, span_bytes, ..test("corners", state, Some("idle:5s")) }
}

/// Returns all tests of AS SSD, on a drive in this state. It reads a file that it has just written.
const fn as_ssd_all(state: &'static str) -> Test {
    test("as-ssd", state, Some("fill"))
}
const AS_SSD_ALL_NEW: Test = as_ssd_all("fresh");
const AS_SSD_ALL_USED: Test = as_ssd_all(RESTED);
const AS_SSD: Test = as_ssd(USED);
const AS_SSD_NEW: Test = as_ssd("fresh");
/// One gigabyte, once.
const AS_SSD_ONCE_NEW: Test = Test { seconds: Some(1), ..AS_SSD_NEW };
const AS_SSD_ONCE_RESTED: Test = Test { seconds: Some(1), ..as_ssd(RESTED) };
/// Returns the same test, about a gigabyte in these seconds, after a run before it. Of a loaded
/// drive the best of several runs was published, or a range; that these are such runs is assumed.
const fn as_ssd_again(seconds: u64) -> Test {
    let prepare = Some("fill,trim,idle:5s");
    let seconds = Some(seconds);
    Test { seconds, prepare, ..as_ssd("fill,random:100%,idle:1800s") }
}
const AS_SSD_WRITE: &str = "write, sequential 1 MiB, QD1";

const LINES: &[Line] = &[
    ("samsung-840-evo-120", fill(12), "knee", Near(3.0), Circular, TURBO),
    ("samsung-840-evo-120", fill(12), "before the knee", Near(410.0), Predicted, TURBO_SPEC),
    ("samsung-840-evo-120", fill(12), "after the knee", Near(143.0), Fitted, NATIVE),
    ("samsung-840-evo-250", fill(12), "knee", Near(3.0), Circular, TURBO),
    ("samsung-840-evo-250", fill(12), "before the knee", Near(520.0), Circular, TURBO_SPEC),
    ("samsung-840-evo-250", fill(12), "after the knee", Near(269.0), Fitted, NATIVE),
    ("samsung-840-evo-500", fill(24), "knee", Near(6.0), Circular, TURBO),
    ("samsung-840-evo-500", fill(24), "before the knee", Near(520.0), Circular, TURBO_SPEC),
    ("samsung-840-evo-500", fill(24), "after the knee", Near(413.0), Circular, NATIVE),
    ("samsung-840-evo-750", fill(36), "knee", Near(9.0), Circular, TURBO),
    ("samsung-840-evo-1000", fill(48), "knee", Near(12.0), Circular, TURBO),
    ("samsung-840-evo-1000", fill(48), "before the knee", Near(520.0), Circular, TURBO_SPEC),
    ("samsung-840-evo-1000", fill(48), "after the knee", Near(461.0), Circular, NATIVE),
    ("samsung-970-evo-500", fill(60), "knee", Near(22.0), Circular, "pcper 2018-04 p5"),
    (
        "samsung-970-evo-500",
        fill(60),
        "after the knee",
        Between(600.0, 700.0),
        Circular,
        "techpowerup 970_Evo p6",
    ),
    ("samsung-840-evo-250", CONSISTENCY, STEADY, Between(3000.0, 5000.0), Predicted, ANAND_STEADY),
    ("samsung-850-evo-250", CONSISTENCY, STEADY, Between(5000.0, 8000.0), Predicted, ANAND_STEADY),
    // The model of cleaning costs was chosen to fit this.
    ("samsung-850-pro-256", CONSISTENCY, STEADY, Between(6000.0, 10_000.0), Fitted, FACEOFF),
    ("samsung-xp941-256", CONSISTENCY, STEADY, Near(3000.0), Fitted, FACEOFF),
    ("samsung-xp941-512", CONSISTENCY, STEADY, Near(5000.0), Fitted, FACEOFF),
    (
        "samsung-xp941-256",
        Test { spare_percent: 25, ..CONSISTENCY },
        STEADY,
        Least(20_000.0),
        Fitted,
        FACEOFF,
    ),
    (
        "ocz-revodrive-350-480",
        CONSISTENCY,
        "the first second below 80 % of the first minute",
        Near(1200.0),
        Fitted,
        FACEOFF,
    ),
    (
        "ocz-revodrive-350-480",
        CONSISTENCY,
        "from 1,400 s, 5th percentile of a second",
        Between(10_000.0, 100_000.0),
        Predicted,
        FACEOFF,
    ),
    (
        "ocz-revodrive-350-480",
        CONSISTENCY,
        "from 1,400 s, 95th percentile of a second",
        Between(10_000.0, 100_000.0),
        Predicted,
        FACEOFF,
    ),
    ("samsung-840-evo-msata-120", MSATA, CLEAN, Near(180.4), Predicted, MSATA_REVIEW),
    ("samsung-840-evo-msata-120", MSATA, DIRTY, Near(69.3), Predicted, MSATA_REVIEW),
    ("samsung-840-evo-msata-120", MSATA, TRIMMED, Near(126.2), Fitted, MSATA_REVIEW),
    ("samsung-840-evo-msata-250", MSATA_HOUR, TRIMMED, Between(100.0, 150.0), Fitted, MSATA_REVIEW),
    (
        "intel-dc-s3700-200",
        CONSISTENCY,
        STEADY,
        Between(30_000.0, 36_000.0),
        Predicted,
        "a recollection of the specification and of AnandTech 6433",
    ),
    ("samsung-850-evo-120", fill(12), "after the knee", Near(145.0), Fitted, NATIVE),
    ("samsung-850-evo-250", fill(12), "after the knee", Near(283.0), Fitted, NATIVE),
    ("samsung-850-evo-500", fill(24), "after the knee", Near(441.0), Circular, NATIVE),
    ("samsung-850-evo-1000", fill(48), "after the knee", Near(456.0), Circular, NATIVE),
    (
        "samsung-840-250",
        AS_SSD,
        "write, sequential 1 MiB, QD1",
        Near(60.0 * MIB),
        Predicted,
        COMPUTERBASE,
    ),
    (
        "samsung-840-250",
        AS_SSD_NEW,
        "write, sequential 1 MiB, QD1",
        Near(247.0 * MIB),
        Predicted,
        COMPUTERBASE,
    ),
    (
        "samsung-840-evo-250",
        AS_SSD_ONCE_NEW,
        AS_SSD_WRITE,
        Near(496.04 * MIB),
        Predicted,
        COMPUTERBASE_EVO,
    ),
    (
        "samsung-840-evo-250",
        AS_SSD_ONCE_RESTED,
        AS_SSD_WRITE,
        Near(439.92 * MIB),
        Predicted,
        COMPUTERBASE_EVO,
    ),
    ("samsung-840-pro-256", AS_SSD_ONCE_NEW, AS_SSD_WRITE, Near(503.0 * MIB), Predicted, HT4U),
    ("samsung-840-pro-256", AS_SSD_ONCE_RESTED, AS_SSD_WRITE, Near(39.7 * MIB), Predicted, HT4U),
    ("sandforce-sf-2281-240", AS_SSD_ONCE_NEW, AS_SSD_WRITE, Near(275.4 * MIB), Predicted, HT4U),
    (
        "samsung-840-pro-256",
        as_ssd_again(2),
        AS_SSD_WRITE,
        Near(468.0 * MIB),
        Predicted,
        HT4U_AGAIN,
    ),
    (
        "sandforce-sf-2281-240",
        as_ssd_again(5),
        AS_SSD_WRITE,
        Between(115.2 * MIB, 141.0 * MIB),
        Predicted,
        HT4U_AGAIN,
    ),
    ("ocz-revodrive-350-480", REVO, CLEAN, Near(447.1), Circular, FACEOFF),
    ("ocz-revodrive-350-480", REVO, DIRTY, Near(157.1), Predicted, FACEOFF),
    ("ocz-revodrive-350-480", REVO, TRIMMED, Near(306.4), Fitted, FACEOFF),
    ("samsung-840-evo-250", iometer(SERVER), CLEAN, Near(289.0), Fitted, HT4U),
    ("samsung-840-evo-250", iometer(SERVER), DIRTY, Near(39.3), Predicted, HT4U),
    ("samsung-840-evo-250", iometer(SERVER), TRIMMED, Near(290.3), Fitted, HT4U),
    ("samsung-840-pro-256", iometer(SERVER), CLEAN, Near(527.0), Predicted, HT4U),
    ("samsung-840-pro-256", iometer(SERVER), DIRTY, Near(28.0), Fitted, HT4U),
    ("samsung-840-pro-256", iometer(SERVER), TRIMMED, Near(488.0), Fitted, HT4U),
    ("sandforce-sf-2281-240", iometer(SERVER), CLEAN, Near(241.0), Predicted, HT4U),
    // An earlier model's wait of cleaning for a map on the flash was added to fit this.
    ("sandforce-sf-2281-240", iometer(SERVER), DIRTY, Near(13.7), Fitted, HT4U),
    ("sandforce-sf-2281-240", iometer(SERVER), TRIMMED, Near(252.0), Fitted, HT4U),
    (
        "intel-x25-m-g1-80",
        corner("fresh", "fresh", QD3_WRITE),
        QD3_WRITE,
        Near(40.8 * MIB),
        Circular,
        INTEL_REVIEWS,
    ),
    (
        "intel-x25-m-g1-80",
        corner("filled", SCATTERED, QD3_WRITE),
        QD3_WRITE,
        Near(26.3 * MIB),
        Fitted,
        INTEL_REVIEWS,
    ),
    (
        "intel-x25-m-g2-160",
        corner("fresh", "fresh", QD3_WRITE),
        QD3_WRITE,
        Near(36.1 * MIB),
        Circular,
        INTEL_REVIEWS,
    ),
    (
        "intel-x25-m-g2-160",
        corner("filled", SCATTERED, QD3_WRITE),
        QD3_WRITE,
        Near(35.8 * MIB),
        Predicted,
        INTEL_REVIEWS,
    ),
    (
        "intel-x25-m-g2-160",
        corner("filled", "fresh", QD3_READ),
        QD3_READ,
        Near(60.0 * MIB),
        Predicted,
        INTEL_REVIEWS,
    ),
    (
        "ocz-vertex-120",
        corner("fresh", "fresh", QD3_WRITE),
        QD3_WRITE,
        Near(13.0 * MIB),
        Circular,
        INTEL_REVIEWS,
    ),
    (
        "ocz-vertex-120",
        corner(USED, "fresh", QD3_WRITE),
        QD3_WRITE,
        Near(7.0 * MIB),
        Fitted,
        INTEL_REVIEWS,
    ),
    (
        "ocz-vertex-120",
        corner("filled", "fresh", QD3_READ),
        QD3_READ,
        Between(30.0 * MIB, 40.0 * MIB),
        Circular,
        INTEL_REVIEWS,
    ),
    (
        "ocz-summit-120",
        corner("fresh", "fresh", QD3_WRITE),
        QD3_WRITE,
        Near(12.8 * MIB),
        Circular,
        ANTHOLOGY,
    ),
    (
        "ocz-summit-120",
        corner("filled", OVERWRITTEN, QD3_WRITE),
        QD3_WRITE,
        Near(0.77 * MIB),
        Fitted,
        ANTHOLOGY,
    ),
    (
        "wd-velociraptor-1000",
        corner("fresh", "fresh", QD3_READ),
        QD3_READ,
        Near(0.7 * MIB),
        Predicted,
        INTEL_REVIEWS,
    ),
];

/// Random writes after more data than the unused blocks can hold.
const OVERWRITTEN_QD3: Test = corner("filled", OVERWRITTEN, QD3_WRITE);

/// Lines whose rows are not rates of 10^6 bytes, or are selected in a plan of several.
const LATENCIES: &[(&str, Test, Row3, Wanted, Worth, &str)] = &[
    ("samsung-840-evo-250", QD1, Row3::Rate, Near(22_769.0), Circular, RAPID_REVIEW),
    ("samsung-840-evo-250", QD1, Row3::MeanUs, Near(43.5), Circular, RAPID_REVIEW),
    ("samsung-840-evo-250", QD1, Row3::MostUs, Near(751.2), Predicted, RAPID_REVIEW),
    ("samsung-840-pro-256", QD4, Row3::Rate, Near(61_000.0), Predicted, UNRECORDED),
    (
        "ocz-vertex-120-early",
        OVERWRITTEN_QD3,
        Row3::MeanUs,
        Near(4860.0),
        Predicted,
        ANTHOLOGY_VERTEX,
    ),
    line("samsung-840-250", AS_SSD_ALL_NEW, "4K read", Row3::Mib, 26.38, COMPUTERBASE),
    line("samsung-840-250", AS_SSD_ALL_NEW, "4K write", Row3::Mib, 69.73, COMPUTERBASE),
    line("samsung-840-250", AS_SSD_ALL_NEW, "4K-64Thrd read", Row3::Mib, 347.18, COMPUTERBASE),
    line("samsung-840-250", AS_SSD_ALL_NEW, "4K-64Thrd write", Row3::Mib, 198.83, COMPUTERBASE),
    line("samsung-840-250", AS_SSD_ALL_NEW, "Acc.time read", Row3::MeanUs, 63.0, COMPUTERBASE),
    line("samsung-840-250", AS_SSD_ALL_NEW, "Acc.time write", Row3::MeanUs, 53.0, COMPUTERBASE),
    line("samsung-840-250", AS_SSD_ALL_USED, "4K read", Row3::Mib, 26.36, COMPUTERBASE),
    line("samsung-840-250", AS_SSD_ALL_USED, "4K write", Row3::Mib, 54.19, COMPUTERBASE),
    line("samsung-840-250", AS_SSD_ALL_USED, "4K-64Thrd read", Row3::Mib, 307.34, COMPUTERBASE),
    line("samsung-840-250", AS_SSD_ALL_USED, "4K-64Thrd write", Row3::Mib, 51.24, COMPUTERBASE),
    line("samsung-840-250", AS_SSD_ALL_USED, "Acc.time read", Row3::MeanUs, 142.0, COMPUTERBASE),
    line("samsung-840-250", AS_SSD_ALL_USED, "Acc.time write", Row3::MeanUs, 78.0, COMPUTERBASE),
    line("samsung-840-evo-250", AS_SSD_ALL_NEW, "4K read", Row3::Mib, 34.92, COMPUTERBASE_EVO),
    line("samsung-840-evo-250", AS_SSD_ALL_NEW, "4K write", Row3::Mib, 71.24, COMPUTERBASE_EVO),
    line(
        "samsung-840-evo-250",
        AS_SSD_ALL_NEW,
        "4K-64Thrd read",
        Row3::Mib,
        366.38,
        COMPUTERBASE_EVO,
    ),
    line(
        "samsung-840-evo-250",
        AS_SSD_ALL_NEW,
        "4K-64Thrd write",
        Row3::Mib,
        220.73,
        COMPUTERBASE_EVO,
    ),
    line(
        "samsung-840-evo-250",
        AS_SSD_ALL_NEW,
        "Acc.time read",
        Row3::MeanUs,
        52.0,
        COMPUTERBASE_EVO,
    ),
    line(
        "samsung-840-evo-250",
        AS_SSD_ALL_NEW,
        "Acc.time write",
        Row3::MeanUs,
        48.0,
        COMPUTERBASE_EVO,
    ),
    line("samsung-840-evo-250", AS_SSD_ALL_USED, "4K read", Row3::Mib, 32.9, COMPUTERBASE_EVO),
    line("samsung-840-evo-250", AS_SSD_ALL_USED, "4K write", Row3::Mib, 59.19, COMPUTERBASE_EVO),
    line(
        "samsung-840-evo-250",
        AS_SSD_ALL_USED,
        "4K-64Thrd read",
        Row3::Mib,
        327.77,
        COMPUTERBASE_EVO,
    ),
    line(
        "samsung-840-evo-250",
        AS_SSD_ALL_USED,
        "4K-64Thrd write",
        Row3::Mib,
        64.32,
        COMPUTERBASE_EVO,
    ),
    line(
        "samsung-840-evo-250",
        AS_SSD_ALL_USED,
        "Acc.time read",
        Row3::MeanUs,
        124.0,
        COMPUTERBASE_EVO,
    ),
    line(
        "samsung-840-evo-250",
        AS_SSD_ALL_USED,
        "Acc.time write",
        Row3::MeanUs,
        79.0,
        COMPUTERBASE_EVO,
    ),
];

/// Returns a line of AS SSD, of which one run has all.
const fn line(
    drive: &'static str,
    test: Test,
    only: &'static str,
    row: Row3,
    value: f64,
    source: &'static str,
) -> (&'static str, Test, Row3, Wanted, Worth, &'static str) {
    (drive, Test { only: Some(only), ..test }, row, Near(value), Predicted, source)
}

/// The figure of a row.
#[derive(Clone, Copy)]
enum Row3 {
    /// Requests per second.
    Rate,
    /// 2^20 bytes per second, as AS SSD prints.
    Mib,
    MeanUs,
    MostUs,
}

/// Misses of more than a factor of two, each with its reason.
const MISSED: &[(&str, &str, &str)] = &[
    (
        "samsung-840-pro-256",
        "write, sequential 1 MiB, QD1 after fill,random:100%,idle:600s",
        "the published server load is not described; one random overwrite of the whole drive is \
         assumed",
    ),
    (
        "samsung-840-evo-250",
        "4K write after fill,random",
        "behind the folds of a used drive a write waits for cleaning, and the drive's rule for what \
         may go ahead of a fold is not known",
    ),
    (
        "samsung-840-evo-250",
        "Acc.time write, mean after fill,random",
        "the same writes, one at a time",
    ),
    (
        "samsung-840-evo-250",
        "4K-64Thrd write after fill,random",
        "the program writes a fixed amount, of which the SLC area takes a part; here each test \
         takes 10 s, and the area is full before",
    ),
];

pub(super) fn figures_of(name: &str) -> Vec<Figure> {
    let lines = LINES.iter().filter(|line| line.0 == name).map(|line| {
        let (drive, test, row, wanted, worth, source) = *line;
        let unit = match row {
            _ if test.suite == "consistency" && row.starts_with("the first") => "s",
            _ if test.suite == "consistency" => "IOPS",
            "knee" => "GB",
            _ => "MB/s",
        };
        figure(drive, &test, row, unit, Row::Value(row.to_owned()), wanted, worth, source)
    });
    let latencies = LATENCIES.iter().filter(|line| line.0 == name).map(|line| {
        let (drive, test, which, wanted, worth, source) = *line;
        let name = test.only.unwrap_or_default().to_owned();
        let (what, unit, row) = match which {
            Row3::Rate => (name.clone(), "IOPS", Row::Value(name)),
            Row3::Mib => (name.clone(), "MiB/s", Row::Value(name)),
            Row3::MeanUs => (format!("{name}, mean"), "us", Row::MeanUs(name)),
            Row3::MostUs => (format!("{name}, longest"), "us", Row::MostUs(name)),
        };
        figure(drive, &test, &what, unit, row, wanted, worth, source)
    });
    lines.chain(latencies).collect()
}

#[allow(clippy::too_many_arguments, reason = "a line of the table has so many fields")]
fn figure(
    drive: &str,
    test: &Test,
    what: &str,
    unit: &'static str,
    row: Row,
    wanted: Wanted,
    worth: Worth,
    source: &str,
) -> Figure {
    let target = Target::parse(&format!("model:{drive}")).expect("a preset");
    let usual = Plan::new(find(test.suite).expect("a suite").profile(), target);
    let steps = |text| Preparation::parse(text).expect("sound steps");
    let plan = Plan {
        state: steps(test.state),
        preparation: test.prepare.map_or(usual.preparation.clone(), steps),
        time_ns: test.seconds.map_or(usual.time_ns, |seconds| seconds * SECOND),
        span_bytes: test.span_bytes.or(usual.span_bytes),
        spare_percent: test.spare_percent,
        // One run of AS SSD has all of its rows.
        only: test.only.filter(|_| test.suite != "as-ssd").map(str::to_owned),
        era: test.era,
        ..usual
    };
    // trim's rows are in different states; consistency wears the drive itself.
    let class = match (
        test.suite,
        row == Row::Value(CLEAN.to_owned()),
        row == Row::Value(DIRTY.to_owned()),
    ) {
        ("trim", true, _) => Class::New,
        ("trim", _, true) => Class::Worn,
        ("consistency", ..) => Class::Worn,
        _ => class_of(&plan),
    };
    let state = plan.state.then(&plan.preparation);
    let (worn, _) = state.at_trim();
    let suffix = match (test.suite, class) {
        ("trim", Class::New) => String::new(),
        ("trim", Class::Worn) => format!(" after {worn}"),
        ("fourcorners" | "corners" | "as-ssd", _) if !state.0.is_empty() => {
            format!(" after {state}")
        }
        ("trim", _) => format!(" after {state}"),
        _ if test.spare_percent > 0 => format!(", {} % left unused", test.spare_percent),
        _ => String::new(),
    };
    let key = what.to_owned() + &suffix;
    let missed = MISSED.iter().find(|(known, row, _)| *known == drive && key.starts_with(row));
    Figure {
        drive: drive.to_owned(),
        what: key,
        unit,
        wanted,
        class,
        worth,
        source: source.to_owned(),
        missed: missed.map(|(.., reason)| *reason),
        plan,
        row,
    }
}
