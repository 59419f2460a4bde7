//! The pages of four reviews of drives.

use crate::document::{Compared, Document};
use crate::stripe;
use report::bars::{Bar, Test, bars};
use report::chart::{Along, by_doublings};
use report::picture::picture;
use report::plot::Curve;
use report::words::figure as formatted;
use suites::published::{Figure, figures_of, measure};

/// A figure with its value here.
type Found = (Figure, Option<f64>);

/// Measures the published figures of these drives.
fn measured(drives: &[&str]) -> Vec<Found> {
    let figures: Vec<Figure> = drives.iter().flat_map(|drive| figures_of(drive)).collect();
    let mut found: Vec<Found> = Vec::new();
    measure(&figures, |figure, value| found.push((figure.clone(), value)));
    let place = |one: &Figure| {
        figures.iter().position(|it| (&it.drive, &it.what) == (&one.drive, &one.what))
    };
    found.sort_by_key(|(figure, _)| place(figure));
    found
}

fn compared((figure, value): &Found) -> Compared {
    let error = value.map_or(-1.0, |value| figure.wanted.error(value));
    Compared {
        what: format!("{}: {}", figure.drive, figure.what.replace('_', " ")),
        published: format!("{} {}", figure.wanted.to_text(), figure.unit),
        found: value.map_or("-".to_owned(), formatted),
        error: Some(error),
        is_direction_right: true,
        evidence: figure.worth.name(),
        reason: figure.missed.map(str::to_owned),
    }
}

/// Returns the value of a figure by a part of its name.
fn value(found: &[Found], drive: &str, what: &str) -> Option<f64> {
    found.iter().find(|(it, _)| it.drive == drive && it.what.contains(what))?.1
}

/// Returns a bar with the published range as a mark.
fn bar(name: &str, (figure, value): &Found) -> Test {
    use suites::published::Wanted::{Between, Least, Near};
    let published = match figure.wanted {
        Near(value) | Least(value) => (value, value),
        Between(low, high) => (low, high),
    };
    let bars = vec![value.map(|value| Bar { value, interval: None })];
    Test { name: name.to_owned(), bars, published: Some(published) }
}

/// Draws the figures whose name contains one of these words.
fn drawn(title: &str, unit: &str, found: &[Found], words: &[&str]) -> String {
    let is_chosen = |figure: &Figure| words.iter().any(|word| figure.what.contains(word));
    let chosen = found.iter().filter(|(figure, _)| is_chosen(figure) && figure.unit == unit);
    let tests: Vec<Test> =
        chosen.map(|one| bar(&format!("{}: {}", one.0.drive, one.0.what), one)).collect();
    picture(&bars(title, unit, &[], &tests)).expect("bars are a drawing")
}

const MARKS: &str = "bars are the models, marks the published figures";

/// A claim without a figure of its own: a ratio that must be at least this.
fn claim(what: &str, published: &str, least: f64, found: Option<f64>) -> Compared {
    Compared {
        what: what.to_owned(),
        published: published.to_owned(),
        found: found.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
        error: None,
        is_direction_right: found.is_some_and(|ratio| ratio >= least),
        evidence: "predicted",
        reason: None,
    }
}

pub(crate) fn xp941() -> Document {
    let drives =
        ["samsung-xp941-128", "samsung-xp941-256", "samsung-xp941-512", "samsung-850-pro-256"];
    let found = measured(&drives);
    let steady = |drive| value(&found, drive, "from 1,400 s, mean of a second");
    let ratio = steady("samsung-850-pro-256").zip(steady("samsung-xp941-256"));
    let mut all: Vec<Compared> = found.iter().map(compared).collect();
    all.push(claim(
        "850 Pro 256 GB, steady writes, as a multiple of the XP941 256 GB",
        "over 2",
        2.0,
        ratio.map(|(pro, xp941)| pro / xp941),
    ));
    Document {
        name: "xp941",
        title: "The review of the XP941, with spare area",
        about: vec![
            "Random 4 KiB writes at a depth of 32 over all of the drive, for 2,000 s. A quarter \
             more spare area raises the steady state by several times, and the next model's flash \
             (850 Pro) by more than two."
                .to_owned(),
        ],
        caption: format!("Steady random writes; {MARKS}"),
        picture: drawn("Steady random 4 KiB writes", "IOPS", &found, &["from 1,400 s"]),
        compared: all,
        commands: vec![
            "overdrive bench consistency model:samsung-xp941-256 --spare 0,25".to_owned(),
            "overdrive bench consistency model:samsung-850-pro-256".to_owned(),
        ],
    }
}

/// Transfer sizes up to this one gain nothing, as the review says.
const SMALL: &str = "64 KiB";

pub(crate) fn revodrive() -> Document {
    let drives = ["ocz-revodrive-350-240", "ocz-revodrive-350-480", "ocz-revodrive-350-960"];
    let found = measured(&drives);
    let mut all: Vec<Compared> = found.iter().map(compared).collect();
    let revo = stripe::sizes("RevoDrive 350 480 GB", &["ocz-revodrive-350-480"]);
    let single = stripe::sizes("one SF-2281", &["sandforce-sf-2281-240"]);
    let two = stripe::sizes("a stripe of two", &["sandforce-sf-2281-240"; 2]);
    let at = |sizes: &stripe::Sizes, size: &str| sizes.read(size);
    let against = |size: &str| Some(at(&revo, size)? / at(&single, size)?);
    all.push(claim(
        "reads of 128 KiB at a depth of 4, against one SF-2281",
        "over 1: gains from 128 KiB up",
        1.0,
        against("128 KiB"),
    ));
    let small = against(SMALL);
    all.push(Compared {
        is_direction_right: small.is_some_and(|ratio| ratio < 1.25),
        ..claim(&format!("the same with {SMALL}"), "about 1: no gain", 0.0, small)
    });
    let largest = at(&revo, "8 MiB");
    all.push(Compared {
        error: largest.map(|rate| rate / 2000.0 - 1.0),
        is_direction_right: true,
        ..claim("reads of 8 MiB (ATTO), MB/s", "about 2000", 0.0, largest)
    });
    let curves = [&revo, &single, &two].map(|it| Curve::new(&it.name, it.curve()));
    let plot = by_doublings("Reads, four at a time", Along::Size, "MB/s", curves.into());
    Document {
        name: "revodrive",
        title: "The review of the RevoDrive 350, against one drive and a stripe",
        about: vec![
            "Four controllers behind queues that distribute requests (VCA 2.0), without a stripe \
             size. For comparison: one drive with the same controller, and two of them as RAID-0 \
             with chunks of 64 KiB."
                .to_owned(),
        ],
        caption: "Reads by transfer size, four at a time: the RevoDrive blue, one drive red, the \
                  stripe green"
            .to_owned(),
        picture: picture(&plot).expect("a plot is a drawing"),
        compared: all,
        commands: vec![
            "overdrive bench sizes model:ocz-revodrive-350-480".to_owned(),
            "overdrive bench sizes model:sandforce-sf-2281-240".to_owned(),
            "overdrive bench trim model:ocz-revodrive-350-480 --prepare torture-40m".to_owned(),
            "overdrive bench consistency model:ocz-revodrive-350-480".to_owned(),
        ],
    }
}

pub(crate) fn x25_m() -> Document {
    let found = measured(&["intel-x25-m-g1-80", "intel-x25-m-g2-160", "ocz-vertex-120"]);
    let kept = |drive| {
        let used = value(&found, drive, "QD3 after filled").or_else(|| {
            let worn = found.iter().filter(|(it, _)| it.drive == drive);
            let mut worn =
                worn.filter(|(it, _)| it.what.contains("write, QD3 after") && it.unit == "MB/s");
            worn.next()?.1
        });
        let new = found.iter().find(|(it, _)| it.drive == drive && it.what.ends_with("write, QD3"));
        Some(used? / new?.1?)
    };
    let mut all: Vec<Compared> = found.iter().map(compared).collect();
    let (first, second) = (kept("intel-x25-m-g1-80"), kept("intel-x25-m-g2-160"));
    all.push(claim(
        "the G2 keeps more of its speed when used than the G1, as a ratio",
        "1.54",
        1.2,
        second.zip(first).map(|(second, first)| second / first),
    ));
    Document {
        name: "x25-m",
        title: "The review of the X25-M, G1 and G2",
        about: vec![
            "Random 4 KiB at a depth of 3 over 8 GB, new and used. The G2 has twice the memory for \
             its map, and hardly becomes slower."
                .to_owned(),
        ],
        caption: format!("Random writes at a depth of 3, new and used; {MARKS}"),
        picture: drawn("Random 4 KiB writes, QD3", "MB/s", &found, &["write, QD3"]),
        compared: all,
        commands: vec![
            "overdrive bench fourcorners model:intel-x25-m-g1-80".to_owned(),
            "overdrive bench fourcorners model:intel-x25-m-g1-80 --state filled --prepare \
             random:1000%"
                .to_owned(),
        ],
    }
}

pub(crate) fn msata() -> Document {
    let found = measured(&["samsung-840-evo-msata-120", "samsung-840-evo-msata-250"]);
    let of = |what| value(&found, "samsung-840-evo-msata-120", what);
    let mut all: Vec<Compared> = found.iter().map(compared).collect();
    all.push(Compared {
        is_direction_right: of("trimmed").zip(of("clean")).is_some_and(|(it, clean)| it < clean),
        ..claim(
            "after TRIM, as a share of the clean drive: TRIM does not restore all",
            "0.70",
            0.0,
            of("trimmed").zip(of("clean")).map(|(trimmed, clean)| trimmed / clean),
        )
    });
    Document {
        name: "msata",
        title: "The review of the 840 EVO mSATA, with TRIM",
        about: vec![
            "Sequential writes of a clean drive, after 40 minutes of random 4 KiB writes, and after \
             a TRIM of all."
                .to_owned(),
        ],
        caption: format!("Sequential writes, clean, dirty and trimmed; {MARKS}"),
        picture: drawn(
            "Sequential 128 KiB writes",
            "MB/s",
            &found,
            &["clean:", "dirty:", "trimmed:"],
        ),
        compared: all,
        commands: vec![
            "overdrive bench trim model:samsung-840-evo-msata-120 --prepare torture-40m".to_owned(),
        ],
    }
}
