//! The presets, by name. Their files are in `presets/`.

macro_rules! preset {
    ($name:literal) => {
        ($name, include_str!(concat!("../../presets/", $name, ".toml")))
    };
}

/// Every preset: its name and its file.
pub(super) const ALL: [(&str, &str); 53] = [
    preset!("corsair-neutron-gtx-240"),
    preset!("crucial-m500-240"),
    preset!("disk-5400-1000"),
    preset!("indilinx-slc-120"),
    preset!("intel-660p-1000"),
    preset!("intel-dc-s3700-200"),
    preset!("intel-x25-e-32"),
    preset!("intel-x25-m-g1-80"),
    preset!("intel-x25-m-g2-160"),
    preset!("intel-x25-m-g2-80"),
    preset!("ocz-revodrive-350-240"),
    preset!("ocz-revodrive-350-480"),
    preset!("ocz-revodrive-350-960"),
    preset!("ocz-summit-120"),
    preset!("ocz-vector-256"),
    preset!("ocz-vertex-120"),
    preset!("ocz-vertex-120-early"),
    preset!("ocz-vertex-450-256"),
    preset!("plextor-m5p-256"),
    preset!("plextor-m6e-256"),
    preset!("samsung-840-250"),
    preset!("samsung-840-evo-1000"),
    preset!("samsung-840-evo-120"),
    preset!("samsung-840-evo-250"),
    preset!("samsung-840-evo-500"),
    preset!("samsung-840-evo-750"),
    preset!("samsung-840-evo-msata-1000"),
    preset!("samsung-840-evo-msata-120"),
    preset!("samsung-840-evo-msata-250"),
    preset!("samsung-840-evo-msata-500"),
    preset!("samsung-840-pro-128"),
    preset!("samsung-840-pro-256"),
    preset!("samsung-840-pro-512"),
    preset!("samsung-850-evo-1000"),
    preset!("samsung-850-evo-120"),
    preset!("samsung-850-evo-250"),
    preset!("samsung-850-evo-500"),
    preset!("samsung-850-pro-1000"),
    preset!("samsung-850-pro-128"),
    preset!("samsung-850-pro-256"),
    preset!("samsung-850-pro-512"),
    preset!("samsung-970-evo-1000"),
    preset!("samsung-970-evo-250"),
    preset!("samsung-970-evo-500"),
    preset!("samsung-xp941-128"),
    preset!("samsung-xp941-256"),
    preset!("samsung-xp941-512"),
    preset!("sandforce-sf-2281-240"),
    preset!("sandisk-extreme-ii-240"),
    preset!("sandisk-extreme-pro-240"),
    preset!("seagate-600-240"),
    preset!("toshiba-rc100-240"),
    preset!("wd-velociraptor-1000"),
];

/// Returns the text of a preset's file. The case of letters does not count.
pub(super) fn text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, text)| *text)
}
