//! The presets, and the errors for wrong files.

use drives::{Kind, Model, Options};

#[test]
fn every_preset_is_sound_and_every_value_has_a_source() {
    let mut count = 0;
    for name in Model::names() {
        let model = Model::preset(name).expect("it is one of the names");
        assert!(model.facts.len() > 10, "{name}: {} facts", model.facts.len());
        for fact in &model.facts {
            // A source inside this project is of no use to a reader.
            assert!(!fact.source.contains(".md"), "{name}: {} is from {}", fact.key, fact.source);
        }
        assert!(!model.title.is_empty() && model.user_bytes() > 0, "{name}");
        count += 1;
    }
    assert!(count >= 23, "{count}");
}

#[test]
fn the_840_evos_have_the_same_spare_space_once_their_slc_area_is_taken() {
    for (size, spare) in [(120, 7.0), (250, 6.4), (500, 6.4), (750, 6.4), (1000, 6.35)] {
        let model = Model::preset(&format!("samsung-840-evo-{size}")).expect("a preset");
        let Kind::Flash(flash) = &model.kind else {
            panic!("a flash drive");
        };
        // The published identity is before hidden losses.
        let found = ((1.0 + flash.spare()) / (1.0 - flash.lost()) - 1.0) * 100.0;
        assert!((found - spare).abs() < 0.35, "{size}: {found} instead of {spare}");
    }
}

#[test]
fn every_flash_drive_says_what_bad_blocks_and_wear_levelling_take_of_its_spare_flash() {
    for name in Model::names() {
        let model = Model::preset(name).expect("a preset");
        let Kind::Flash(flash) = &model.kind else { continue };
        for (key, share) in [
            ("ftl.bad_blocks_percent", flash.bad_blocks),
            ("ftl.wear_levelling_percent", flash.wear_levelling),
        ] {
            let fact = model.facts.iter().find(|fact| fact.key == key).expect("a fact");
            assert!(fact.source.contains("recollection"), "{name}: {key}: {}", fact.source);
            assert!((0.001..0.03).contains(&share), "{name}: {key}: {share}");
        }
        // They reduce the FTL's superblocks, and leave some of the spare.
        let (shape, derived) = (flash.shape(&Options::default()), flash.derived());
        let had = f64::from(flash.blocks) * (1.0 - flash.bad_blocks - flash.wear_levelling);
        // This sample may have fewer bad blocks than the average.
        let most = had * (1.0 + flash.bad_blocks);
        assert!(f64::from(shape.superblocks) <= most, "{name}");
        assert!(derived.spare < derived.over_provisioning && derived.spare > 0.0, "{name}");
    }
}

#[test]
fn what_follows_from_an_840_evo_is_what_is_published_of_it() {
    let model = Model::preset("samsung-840-evo-250").expect("a preset");
    let Kind::Flash(flash) = &model.kind else {
        panic!("a flash drive");
    };
    let derived = flash.derived();
    assert_eq!((derived.raw_bytes, derived.superblock_bytes), (256 << 30, 64 << 20));
    // 9.05 % of the flash: AnandTech 7173 p2.
    let share = 1.0 - 1.0 / (1.0 + derived.over_provisioning);
    assert!((share - 0.0905).abs() < 0.001, "{share}");
    assert!(derived.spare_in_use < derived.spare && derived.spare < derived.over_provisioning);
    let native = derived.native_bytes_per_second / 1e6;
    assert!((native / 269.0 - 1.0).abs() < 0.1, "{native} MB/s");
    let predicted = derived.predicted.expect("a closed form");
    // Greedy amplifies a little less than 1 / (2 spare) + 1 if there is little spare.
    let rough = 1.0 + 0.5 / derived.spare_in_use;
    assert!((predicted.amplification / rough - 1.0).abs() < 0.05, "{predicted:?}");
}

#[test]
fn an_error_has_its_line_where_the_key_stands_in_the_file() {
    let text = "like = \"samsung-840-evo-250\"\n\n[nand]\n# twelve\ndies = [0, \"x\"]\n";
    let error = Model::parse("mine.toml", text).expect_err("no dies");
    assert_eq!((error.line, error.key.as_str()), (Some(5), "nand.dies"));
    let error = Model::parse("mine.toml", "title = \"x\"\n").expect_err("no kind");
    assert_eq!((error.line, error.key.as_str()), (None, "kind"));
    let dotted = "like = \"samsung-840-evo-250\"\nnand.dies = [0, \"x\"]\n";
    let error = Model::parse("mine.toml", dotted).expect_err("no dies");
    assert_eq!(error.line, Some(2));
}

fn error(text: &str) -> String {
    Model::parse("mine.toml", text).expect_err("the file is wrong").to_string()
}

#[test]
fn a_users_file_may_build_on_a_preset() {
    let text = r#"
        like = "samsung-840-evo-250"
        title = "Mine"
        [nand]
        dies = [32, "I counted them"]
        [capacity]
        user_bytes = [500107862016, "label"]
    "#;
    let model = Model::parse("mine.toml", text).expect("a sound file");
    assert_eq!((model.title.as_str(), model.user_bytes()), ("Mine", 500_107_862_016));
    assert!(model.published.is_empty(), "what is published of another drive is not this one's");
    let dies = model.facts.iter().find(|fact| fact.key == "nand.dies").expect("a fact");
    assert_eq!((dies.value.as_str(), dies.source.as_str()), ("32", "I counted them"));
    let loud = text.replace("samsung-840-evo-250", "Samsung-840-EVO-250");
    let same = Model::parse("mine.toml", &loud).expect("letters' case does not count");
    assert_eq!(same.facts.len(), model.facts.len());
    let small = Options { user_bytes: Some(1 << 30), ..Options::default() };
    assert!(model.drive(&small).is_ok());
}

#[test]
fn a_wrong_file_is_answered_with_file_key_and_mend() {
    let base = "like = \"samsung-840-evo-250\"\n";
    for (text, parts) in [
        ("title = ", ["mine.toml", "line 1", "correct the TOML"]),
        ("title = \"x\"", ["mine.toml", "kind", "write kind"]),
        ("title = \"x\"\nkind = \"tape\"", ["mine.toml", "kind", "\"flash\" or \"disk\""]),
        ("title = \"x\"\nkind = \"flash\"", ["mine.toml", "nand.planes", "under [nand]"]),
        ("like = \"nothing\"", ["mine.toml", "like", "drive models"]),
        (&format!("{base}[nand]\ndies = 16"), ["mine.toml", "nand.dies", "[value, \"source\"]"]),
        (&format!("{base}[nand]\ndies = [16, \"\"]"), ["mine.toml", "nand.dies", "assumed"]),
        (&format!("{base}[nand]\ndies = [0, \"x\"]"), ["mine.toml", "nand.dies", "give 1 to 4096"]),
        (&format!("{base}[nand]\ndies = [1.5, \"x\"]"), ["mine.toml", "nand.dies", "whole"]),
        (
            &format!("{base}[nand]\ndies = [\"x\", \"x\"]"),
            ["mine.toml", "nand.dies", "not a number"],
        ),
        (
            &format!("{base}[nand]\nchannel = [8, \"x\"]"),
            ["nand.channel", "did you mean", "nand.channels"],
        ),
        (
            &format!("{base}[nond]\ndies = [8, \"x\"]"),
            ["mine.toml", "nond.dies", "did you mean nand.dies"],
        ),
        (
            &format!("{base}[ftl]\nvictims = [\"best\", \"x\"]"),
            ["ftl.victims", "unknown", "greedy"],
        ),
        (
            &format!("{base}[nand]\nblocks = [100, \"x\"]"),
            ["mine.toml", "too little flash", "more blocks"],
        ),
        (&format!("{base}[link]\nhalf_duplex = [1, \"x\"]"), ["link.half_duplex", "true", "false"]),
    ] {
        let said = error(text);
        for part in parts {
            assert!(said.contains(part), "{text}: {said:?} does not say {part:?}");
        }
    }
}

#[test]
fn no_file_makes_the_reader_panic() {
    let names: Vec<&str> = Model::names().collect();
    let text = include_str!("../presets/samsung-840-evo-250.toml");
    let values = ["-1", "0", "1e300", "nan", "inf", "9223372036854775807", "\"\"", "[]", "{}"];
    for line in text.lines().filter(|line| line.contains(" = [")) {
        let (key, _) = line.split_once(" = ").expect("a key");
        for value in values {
            let changed = text.replace(line, &format!("{key} = [{value}, \"x\"]"));
            if let Ok(Kind::Flash(flash)) = Model::parse("mine.toml", &changed).map(|it| it.kind) {
                assert!(flash.derived().raw_bytes > 0);
            }
        }
        _ = Model::parse("mine.toml", &text.replace(line, ""));
    }
    assert_eq!(names.len(), names.iter().collect::<std::collections::BTreeSet<_>>().len());
}

#[test]
fn the_version_of_a_model_follows_its_values_and_not_its_words() {
    let text = |dies: u32, source: &str| {
        format!(
            "like = \"samsung-840-evo-250\"\ntitle = \"Mine\"\n[nand]\ndies = [{dies}, \"{source}\"]\n"
        )
    };
    let version = |text: &str| Model::parse("mine.toml", text).expect("a sound file").version();
    let one = version(&text(32, "counted"));
    assert_eq!((one.len(), &one), (8, &version(&text(32, "counted again"))));
    assert_ne!(one, version(&text(16, "counted")));
    let own = "[published]\nrandom_read_iops = [1, \"test\"]\n[about]\nyear = [2000, \"test\"]\n";
    assert_eq!(one, version(&(text(32, "counted") + own)));
}

#[test]
fn the_power_of_a_drive_is_sourced_complete_and_not_inherited() {
    let power = |name: &str| Model::preset(name).expect("a preset").power;
    let xp941 = power("samsung-xp941-512").expect("published");
    assert_eq!((xp941.idle_w, xp941.active_w), (0.08, 5.8));
    // Two seconds, of which half a second active.
    assert!((xp941.joules(2_000_000_000, 500_000_000) - (0.08 * 1.5 + 5.8 * 0.5)).abs() < 1e-9);
    assert_eq!(power("plextor-m6e-256"), None, "it is like an XP941");
    for (keys, says) in [
        ("idle_w = [1, \"x\"]\n", "give both"),
        ("idle_w = [2, \"x\"]\nactive_w = [1, \"x\"]\n", "swap them"),
    ] {
        let text = format!("like = \"samsung-840-evo-250\"\ntitle = \"x\"\n[power]\n{keys}");
        assert!(error(&text).contains(says), "{keys}");
    }
}
