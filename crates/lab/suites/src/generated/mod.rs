//! Traces that were never published, generated from their published properties.
//!
//! ```text
//!   presets/NAME.toml --> Profile: properties with their sources
//!                            |  sizes: counts of each size and direction (iterative scaling)
//!                            |  bursts: queue depths
//!                            v
//!   seed, scale -------> Requests: an iterator of events --> Generated, a source of a load
//!                                    |                   --> a recording (trace generate)
//!                                    v
//!                        Meter --> properties: published, assumed, generated
//! ```
//!
//! All counts are drawn without replacement, so that a trace has its properties exactly, whatever
//! the seed is; only addresses and idle times are random. A trace is made while it is used.

mod bursts;
mod ends;
mod meter;
mod profile;
mod properties;
mod requests;
mod sizes;
mod source;
mod urn;

pub use meter::Meter;
pub use profile::{DepthClass, Pace, Profile, SizeClass, Sourced, Workload};
pub use properties::{POINTS_MAX, Property, markdown, measure, properties};
pub use requests::{Requests, SCALES, Scale};
pub use source::Generated;

#[cfg(test)]
mod tests {
    use super::*;

    fn scale_of(profile: &Profile) -> f64 {
        let requests =
            |workload: &Workload| -> u64 { workload.requests.iter().map(|it| it.value).sum() };
        let most = profile.workloads.iter().map(requests).max().unwrap_or(1);
        (250_000.0 / most as f64).min(1.0)
    }

    #[test]
    fn every_profile_has_its_published_properties() {
        for name in Profile::names() {
            let profile = Profile::find(name).expect("its own");
            let scale = Scale { scale: scale_of(&profile), ..Scale::default() };
            let measured = measure(&profile, &scale).expect(name);
            let wrong: Vec<&Property> = measured.iter().filter(|it| it.is_wrong()).collect();
            assert!(wrong.is_empty(), "{name}: {wrong:#?}");
            // Assumed shares are kept as well; the end of the disk is reached by chance.
            let far = |it: &&Property| match it.name.as_str() {
                "longest idle time" => it.off_points > 0.0,
                _ => it.off_points.abs() > 2.0,
            };
            let far: Vec<&Property> = measured.iter().filter(far).collect();
            assert!(far.is_empty(), "{name}: {far:#?}");
        }
    }

    #[test]
    fn a_seed_gives_one_trace_and_another_seed_another_with_the_same_properties() {
        let profile = Profile::find("Light").expect("its own");
        let workload = &profile.workloads[0];
        let trace = |seed: u64| -> Vec<trace::Event> {
            let scale = Scale { scale: 0.02, seed, ..Scale::default() };
            Requests::new(workload, &scale).expect("sound").collect()
        };
        let (one, other) = (trace(1), trace(2));
        assert_eq!(one, trace(1));
        assert_ne!(one, other);
        let bytes =
            |trace: &[trace::Event]| trace.iter().map(|it| u64::from(it.sectors)).sum::<u64>();
        assert_eq!((one.len(), bytes(&one)), (other.len(), bytes(&other)));
        assert!(one.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    }

    #[test]
    fn a_damaged_file_is_one_sentence() {
        let good = include_str!("../../presets/light.toml");
        for (from, to, what) in [
            ("reads =", "raeds =", "unknown field `raeds`"),
            ("372_630", "\"many\"", "invalid type"),
            ("372_630", "-1", "invalid value"),
            ("\"assumed: 30 GiB\"", "\"I think\"", "write 'published: ' and where"),
            ("[4096], 27.6", "[4097], 27.6", "write multiples of 512"),
            ("[4096], 27.6", "[8192], 27.6", "write each size once"),
            ("[4096], 27.6", "[4096], 97.6", "add up to 151.9 %"),
            ("[2, 16.8", "[2, 76.8", "more frequent than the one before"),
            ("[2, 16.8", "[2, 6.8", "add up to 90.1 %"),
            ("sequential = [70.0", "sequential = [170.0", "write 0 to 100"),
            ("idle_us_max", "in_flight", "1 to 256"),
            ("[[workload]]", "[[workload]]\n[[workload]]", "has no name"),
        ] {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good, "{from}");
            let refused = Profile::parse("x", &text).expect_err(what);
            assert!(refused.contains(what) && !refused.contains('\n'), "{what}: {refused}");
        }
        let impossible = good.replace("[19_295_140_000", "[1_000_000_000_000");
        let profile = Profile::parse("x", &impossible).expect("it can be read");
        let refused = measure(&profile, &Scale { scale: 0.01, ..Scale::default() });
        let refused = refused.expect_err("no size is that large");
        assert!(refused.contains("required means"), "{refused}");
    }

    #[test]
    fn an_absurd_scale_is_refused() {
        let light = &Profile::find("light").expect("its own").workloads[0];
        for (scale, what) in [
            (0.0, "write 0.0001 to 10"),
            (f64::NAN, "write 0.0001"),
            (1e-4, "too few"),
            (1e9, "write"),
        ] {
            let scale = Scale { scale, ..Scale::default() };
            let refused = Requests::new(light, &scale).err().expect(what);
            assert!(refused.contains(what), "{refused}");
        }
        let scale = Scale { scale: 0.1, disk_bytes: 1 << 20, ..Scale::default() };
        assert!(Requests::new(light, &scale).is_err());
    }
}
