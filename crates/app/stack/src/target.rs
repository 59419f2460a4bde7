//! Parses a backing as users write it.

use crate::failure::{Exit, Failure};
use crate::rate_limit::{below_limits, split_limits};
use block::{CacheSpec, DelaySpec, FaultsSpec, Size, Spec};
use nbd::client::{ExportAddress, ServerSocket};
use std::path::PathBuf;

/// Options of a volume besides its backing.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The cache; None: serve without one.
    pub cache: Option<CacheSpec>,
    /// Slows the backing down, for tests and demonstrations.
    pub delay: Option<DelaySpec>,
    /// Makes requests to the backing fail, for tests.
    pub faults: Option<FaultsSpec>,
    /// Whether to refuse changes.
    pub read_only: bool,
    /// Whether to use the host's page cache below the volume.
    pub buffered: bool,
}

/// The beginnings of backings other than paths and URIs.
const KINDS: [&str; 6] = ["limit:", "model:", "null:", "pool:", "ram:", "stripe:"];
/// Size of a stripe's chunks.
const CHUNK: Size = Size(64 << 10);

/// Returns the stack for a backing: a path, the URI of an NBD export, `ram:SIZE`, `null:SIZE`,
/// `model:NAME[?KEY=VALUE&...]`, several paths as `pool:PATH,PATH` or `stripe:PATH,PATH`, or any of
/// these with a limited rate as `limit:KEY=VALUE,...:BACKING`.
///
/// # Errors
/// Usage, with a correction, for anything else.
pub fn target(backing: &str, plan: &Plan) -> Result<Spec, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let (limits, backing) = split_limits(backing).map_err(usage)?;
    let size = |text: &str| -> Result<Size, Failure> {
        let size = text.parse().and_then(|size: Size| size.volume_sectors().map(|_| size));
        size.map_err(|error| usage(format!("{backing}: {error}")))
    };
    let file = |path: &str| Spec::File {
        path: PathBuf::from(path),
        read_only: plan.read_only,
        buffered: plan.buffered,
    };
    let several = |list: &str| -> Result<Vec<String>, Failure> {
        let members: Vec<String> = list.split(',').map(str::to_owned).collect();
        if members.len() < 2 || members.iter().any(|member| member.is_empty()) {
            let message = "name at least two members, by their paths, separated by commas";
            return Err(usage(format!("{backing}: {message}")));
        }
        members.iter().try_for_each(|member| check_member(member))?;
        Ok(members)
    };
    let in_memory = backing.starts_with("ram:") || backing.starts_with("null:");
    if in_memory && plan.buffered {
        return Err(usage(format!("{backing}: --buffered is for images and devices")));
    }
    let mut spec = if let Some(list) = backing.strip_prefix("pool:") {
        let member = |path: &String| (path != "missing").then(|| file(path));
        Spec::Pool { members: several(list)?.iter().map(member).collect() }
    } else if let Some(list) = backing.strip_prefix("stripe:") {
        Spec::Stripe { members: several(list)?.iter().map(|it| file(it)).collect(), chunk: CHUNK }
    } else if let Some(rest) = backing.strip_prefix("ram:") {
        Spec::Ram { size: size(rest)? }
    } else if let Some(rest) = backing.strip_prefix("null:") {
        Spec::Null { size: size(rest)? }
    } else if is_uri(backing) {
        if plan.buffered {
            return Err(usage(format!("{backing}: --buffered is for images and devices")));
        }
        ExportAddress::parse(backing).map_err(|form| usage(format!("{backing}: {form}")))?;
        Spec::Nbd { uri: backing.to_owned(), read_only: plan.read_only }
    } else if backing.starts_with("model:") {
        if plan.read_only || plan.buffered {
            let message = "--read-only and --buffered are for images and devices";
            return Err(usage(format!("{backing}: {message}")));
        }
        Spec::Model { model: crate::model_name::parse(backing)? }
    } else if backing.is_empty() {
        return Err(usage("the backing is empty; name an image, a device, or ram:SIZE".into()));
    } else {
        file(backing)
    };
    for limit in limits.into_iter().rev() {
        spec = Spec::Limit { limit, below: Box::new(spec) };
    }
    if let Some(delay) = &plan.delay {
        spec = Spec::Delay { delay: delay.clone(), below: Box::new(spec) };
    }
    if let Some(faults) = &plan.faults {
        spec = Spec::Faults { faults: faults.clone(), below: Box::new(spec) };
    }
    if let Some(cache) = &plan.cache {
        spec = Spec::Cache { cache: cache.clone(), below: Box::new(spec) };
    }
    Ok(spec)
}

/// Refuses a member of a pool or a stripe that is another backing than a file or a device.
///
/// # Errors
/// Usage, with the way to use the member.
pub(crate) fn check_member(member: &str) -> Result<(), Failure> {
    let is_kind = || KINDS.iter().any(|kind| member.starts_with(kind));
    let mend = match is_uri(member) {
        true => "mount the export as a file with 'nbdfuse FILE URI', and name that file",
        false if is_kind() => "write ./ in front of a file of that name",
        false => return Ok(()),
    };
    let message = format!("{member}: cannot be a member: members are files and devices; {mend}");
    Err(Failure::new(Exit::Usage, message))
}

/// Whether a backing is the URI of an NBD export.
fn is_uri(backing: &str) -> bool {
    let schemes = ["nbd://", "nbd+unix://", "nbds://", "nbds+unix://"];
    schemes.iter().any(|scheme| backing.starts_with(scheme))
}

/// Returns a name for a volume whose backing is an NBD export: the export's own, or that of its
/// server. None: it is another backing.
pub fn export_name(backing: &str) -> Option<String> {
    let address = ExportAddress::parse(below_limits(backing)).ok()?;
    let of_socket = || match &address.socket {
        ServerSocket::Unix(path) => path.file_stem().map(|stem| stem.to_string_lossy().into()),
        ServerSocket::Tcp { host, .. } => Some(host.clone()),
    };
    let name = address.export.rsplit('/').next().filter(|name| !name.is_empty());
    name.map(str::to_owned).or_else(of_socket)
}

/// Returns the URI of an export with its paths made absolute: those of its socket and of its
/// certificates.
fn absolute_uri(uri: &str) -> String {
    let Ok(mut address) = ExportAddress::parse(uri) else { return uri.to_owned() };
    let make_absolute = |path: &mut PathBuf| {
        if let Ok(absolute) = std::path::absolute(&*path) {
            *path = absolute;
        }
    };
    if let ServerSocket::Unix(path) = &mut address.socket {
        make_absolute(path);
    }
    if let Some(tls) = &mut address.tls {
        make_absolute(&mut tls.certificates);
    }
    address.to_string()
}

/// Returns a backing as users write it, with its paths made absolute for programs with another
/// working directory.
pub fn absolute(backing: &str) -> String {
    let path = |path: &str| {
        let whole = std::path::absolute(path);
        whole.map_or(path.to_owned(), |whole| whole.to_string_lossy().into_owned())
    };
    let below = below_limits(backing);
    if below.len() < backing.len() {
        return format!("{}{}", backing.strip_suffix(below).unwrap_or_default(), absolute(below));
    }
    for kind in ["pool:", "stripe:"] {
        if let Some(members) = backing.strip_prefix(kind) {
            let members = members.split(',').map(|member| match member {
                "missing" | "" => member.to_owned(),
                member => path(member),
            });
            return format!("{kind}{}", members.collect::<Vec<_>>().join(","));
        }
    }
    if is_uri(backing) {
        return absolute_uri(backing);
    }
    match ["ram:", "null:", "model:"].iter().any(|kind| backing.starts_with(kind)) {
        true => backing.to_owned(),
        false => path(backing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_backings_are_shown_absolute() {
        let here = std::env::current_dir().expect("there is one");
        let here = here.display();
        assert_eq!(absolute("disk.img"), format!("{here}/disk.img"));
        assert_eq!(absolute("/srv/disk.img"), "/srv/disk.img");
        assert_eq!(absolute("pool:a,missing,/b"), format!("pool:{here}/a,missing,/b"));
        assert_eq!(absolute("limit:iops=1:a"), format!("limit:iops=1:{here}/a"));
        assert_eq!(
            absolute("limit:iops=1:stripe:a,b"),
            format!("limit:iops=1:stripe:{here}/a,{here}/b")
        );
        let exports = ["nbd://host:10809/disk", "nbd+unix:///a?socket=/run/a.sock"];
        let others = ["ram:1G", "null:1G", "model:samsung-840-evo-250?seed=1"];
        for other in others.into_iter().chain(exports) {
            assert_eq!(absolute(other), other);
        }
        let relative = absolute("limit:iops=1:nbd+unix:///a?socket=a.sock");
        assert!(relative.starts_with("limit:iops=1:nbd+unix:///a?socket=/"), "{relative}");
        assert!(relative.ends_with("/a.sock"), "{relative}");
        assert_eq!(
            absolute("nbds://host/a?tls-certificates=c"),
            format!("nbds://host:10809/a?tls-certificates={here}/c")
        );
    }

    #[test]
    fn a_volume_over_an_export_has_its_name() {
        let name = |backing: &str| export_name(backing);
        assert_eq!(name("nbd://host/db").as_deref(), Some("db"));
        assert_eq!(name("limit:iops=1:nbd://host/a/b%20c").as_deref(), Some("b c"));
        assert_eq!(name("nbd://host:99/").as_deref(), Some("host"));
        assert_eq!(name("nbd+unix:///?socket=/run/db.sock").as_deref(), Some("db"));
        assert_eq!(name("/srv/db.img"), None);
    }

    #[test]
    fn backings_are_understood_or_refused_with_a_mend() {
        let plan = Plan::default();
        let ram = target("ram:1M", &plan).expect("a good backing");
        assert_eq!(ram, Spec::Ram { size: Size(1 << 20) });
        for bad in [
            "ram:",
            "ram:x",
            "null:100",
            "ram:0",
            "null:8388608T",
            "ram:8388608T",
            "",
            "nbd://",
            "nbd+unix:///disk",
            "nbds://host/disk",
            "model:x",
            "pool:",
            "pool:a",
            "stripe:a,",
            "limit:iops=1:",
            "limit:iops=0:a",
            "limit:iops=1:pool:a",
        ] {
            let failure = target(bad, &plan).expect_err(bad);
            assert_eq!(failure.exit, Exit::Usage, "{bad}");
        }
        let model = target("model:samsung-840-evo-250?size=1G", &plan).expect("a good backing");
        assert!(matches!(model, Spec::Model { model } if model.size == Some(Size(1 << 30))));
        let read_only = Plan { read_only: true, ..Plan::default() };
        assert!(target("model:samsung-840-evo-250", &read_only).is_err());
        let buffered = Plan { buffered: true, ..Plan::default() };
        for backing in ["model:samsung-840-evo-250", "ram:1M", "null:1M", "nbd://host/"] {
            assert!(target(backing, &buffered).is_err(), "{backing}");
        }
        let export = target("nbd://host/", &read_only).expect("a good URI");
        assert_eq!(export, Spec::Nbd { uri: "nbd://host/".into(), read_only: true });
        let pool = target("pool:a.img,missing,b.img", &plan).expect("three members");
        let Spec::Pool { members } = &pool else { panic!("{pool:?}") };
        assert_eq!(members.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
        let member = |list: &str| target(list, &plan).expect_err(list).message;
        assert!(member("pool:a.img,nbd://host/b").starts_with("nbd://host/b: cannot be a member"));
        assert!(member("stripe:nbds://host/b,a.img").contains("nbdfuse FILE URI"));
        assert!(member("pool:a.img,ram:1G").contains("write ./ in front"));
        assert!(target("pool:a.img,./ram:1G", &plan).is_ok(), "a file of that name");
        let limited = target("limit:iops=2:limit:iops=1:ram:1M", &plan).expect("two limits");
        let iops: Vec<u64> = limited
            .chain()
            .filter_map(|part| match part {
                Spec::Limit { limit, .. } => Some(limit.iops),
                _ => None,
            })
            .collect();
        assert_eq!(iops, [2, 1]);
        assert_eq!(limited.chain().last(), Some(&ram));
        let cached = Plan { cache: Some(CacheSpec::default()), ..Plan::default() };
        let spec = target("disk.img", &cached).expect("a path");
        assert!(matches!(spec, Spec::Cache { below, .. } if matches!(*below, Spec::File { .. })));
    }
}
