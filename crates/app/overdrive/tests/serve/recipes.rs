//! The commands and files that documents show, run and read as they are printed there.

use crate::common::{OVERDRIVE, have, image, no_namespaces, place, run};
use crate::home::Home;
use crate::mounted::{can_mount, plain};
use std::fs;
use std::path::Path;

const USE: &str = include_str!("../../../../../docs/USE.md");
const README: &str = include_str!("../../../../../README.md");

/// A block of a page, by the word after its `sh`.
fn block(page: &str, word: &str) -> String {
    fenced(page, &format!("sh {word}"))
}

/// The first block of a page with this language.
fn fenced(page: &str, language: &str) -> String {
    let start = format!("```{language}\n");
    let (_, rest) = page.split_once(&start).expect("the page has this block");
    rest.split_once("```").expect("it ends").0.to_owned()
}

/// A shell script with the program in PATH, in this home.
fn shell(home: &Home, script: &str) -> crate::common::Ended {
    let directory = Path::new(OVERDRIVE).parent().expect("a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("PATH={}:{path}:/usr/sbin:/sbin", directory.display());
    let runtime = format!("XDG_RUNTIME_DIR={}", home.runtime().display());
    let state = format!("XDG_STATE_HOME={}", home.state().display());
    // The history of suites.
    let data = format!("XDG_DATA_HOME={}", home.path().join("data").display());
    // What stays in the background has its own output, or nothing would end.
    let script = format!("exec < /dev/null; set -e\n{script}");
    run("env", &[&path, &runtime, &state, &data, "sh", "-c", &script])
}

#[test]
fn the_mount_recipe_mounts_survives_a_kill_and_leaves_nothing() {
    if !can_mount() || !have(&["nbdkit", "nbdfuse", "fusermount3", "losetup"]) {
        return;
    }
    let (home, place) = (Home::new(), place());
    let image = image(&place, 64);
    let (mountpoint, run_place) = (home.path().join("mnt"), home.path().join("sockets"));
    run("mkfs.ext4", &["-q", plain(&image)]).well();
    let own = format!(
        "image={} mountpoint={} run={}",
        plain(&image),
        plain(&mountpoint),
        plain(&run_place)
    );
    let mount = block(USE, "mount");
    let (first, mount) = mount.split_once('\n').expect("lines");
    assert!(first.starts_with("image="), "the first line says what is whose: {first}");
    let mount = mount.replace("--memory 2G", "--memory 16M");
    let serve = mount.lines().find(|line| line.starts_with("overdrive serve")).expect("a line");
    // Background programs keep this output.
    let errors = home.path().join("errors");
    let script = format!(
        "{own}\nexec 9>&1 >/dev/null 2>{}\nset -x\n{mount}\n\
         echo before > $mountpoint/file\nsync -f $mountpoint/file\n\
         kill -9 $(overdrive volume list -n -o pid)\n\
         (sleep 1; exec {}) &\n\
         echo after > $mountpoint/other\nsync -f $mountpoint/other\n\
         cat $mountpoint/file $mountpoint/other >&9\n{}\n[ ! -e $run ]",
        plain(&errors),
        serve.trim_end_matches(" &"),
        block(USE, "unmount")
    );
    let ended = shell(&home, &script);
    let said = fs::read_to_string(errors).expect("ours");
    assert_eq!((ended.status, &*ended.stdout), (0, "before\nafter\n"), "{said}");
    run("e2fsck", &["-fn", plain(&image)]).well();
}

#[test]
fn the_line_for_virtual_machines_is_understood() {
    if !have(&["qemu-io"]) {
        return;
    }
    let home = Home::new();
    let page = block(USE, "qemu");
    let options = page.split_whitespace().find(|word| word.starts_with("driver=nbd")).expect("one");
    assert!(options.contains("reconnect-delay="), "{options}");
    let options = options
        .replace("/run/overdrive-db/db.sock", plain(&home.socket()))
        .replace("node-name=db,", "");
    let script = format!(
        "overdrive serve ram:8M --name db --memory 1M --nbd unix:{} --run \
         'qemu-io --image-opts {options} -c \"write -P 7 0 64k\" -c \"read -P 7 0 64k\"'",
        plain(&home.socket())
    );
    let ended = shell(&home, &script).well();
    assert!(!ended.stdout.contains("failed"), "{}", ended.stdout);
}

#[test]
fn the_readme_serves_an_image_while_a_command_runs() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let home = Home::new();
    let script = block(README, "run").replace("--memory 2G", "--memory 16M");
    let ended = shell(&home, &format!("cd {}\n{script}", plain(home.path()))).well();
    assert!(ended.stdout.contains("1073741824 (1G)"), "{}", ended.stdout);
}

#[test]
fn the_readme_attaches_mounts_and_leaves_nothing() {
    if !can_mount() {
        return;
    }
    let _alone = no_namespaces();
    let (home, place) = (Home::new(), place());
    let name = format!("readme-{}", std::process::id());
    let (image, mountpoint) = (place.path().join(format!("{name}.img")), home.path().join("mnt"));
    std::fs::create_dir(&mountpoint).expect("a fresh directory");
    let own = |word: &str| {
        let text = block(README, word).replace("--memory 2G", "--memory 16M");
        let text = text.replace("-s 10G", "-s 64M").replace("/srv/db.img", plain(&image));
        let text = text.replace("overdrive/db", &format!("overdrive/{name}"));
        text.replace("detach db", &format!("detach {name}")).replace("/mnt", plain(&mountpoint))
    };
    let (mount, umount) = own("mount")
        .split_once('\n')
        .map(|(a, b)| (a.to_owned(), b.trim().to_owned()))
        .expect("lines");
    let device = format!("/dev/overdrive/{name}");
    // Nothing is left of a run that fails.
    let undo = format!("{{ {umount}; overdrive detach {name} --force; }} 2>&1 || true");
    let script = format!(
        "exec 9>&1 >/dev/null\ntrap '{undo}' EXIT\n\
         {}\n[ ! -e {device} ]\n{mount}\necho there > {}/file\n{umount}\n\
         [ ! -e {device} ]\n{mount}\ncat {}/file >&9\n{umount}",
        own("attach"),
        plain(&mountpoint),
        plain(&mountpoint),
    );
    assert_eq!(shell(&home, &script).well().stdout, "there\n");
    run("e2fsck", &["-fn", plain(&image)]).well();
}

/// Quick starts of the manual: the name of the volume in each.
const STARTS: [(&str, &str); 5] = [
    ("data", include_str!("../../../../../docs/start/slow-disk.md")),
    ("guest", include_str!("../../../../../docs/start/vm-host.md")),
    ("build", include_str!("../../../../../docs/start/build-runner.md")),
    ("db", include_str!("../../../../../docs/start/database.md")),
    ("app", include_str!("../../../../../docs/start/container.md")),
];

/// All blocks of a page with this word, one after the other.
fn blocks(page: &str, word: &str) -> String {
    let start = format!("```sh {word}\n");
    let rests = page.split(&start).skip(1);
    rests.map(|rest| rest.split_once("```").expect("it ends").0).collect()
}

/// The commands of a quick start, with small sizes, names of this run, and files below `place`.
fn own_commands(page: &str, name: &str, own_name: &str, place: &Path, mountpoint: &Path) -> String {
    let mut text =
        blocks(page, "run").replace("-s 10G", "-s 64M").replace("--time 1s", "--time 50ms");
    for size in ["2G", "4G"] {
        text = text.replace(&format!("--memory {size}"), "--memory 16M");
    }
    for before in ["overdrive/", "--name ", "stats ", "detach ", "freeze ", "resume "] {
        text = text.replace(&format!("{before}{name}"), &format!("{before}{own_name}"));
    }
    text = text.replace("/mnt", plain(mountpoint));
    let place = plain(place);
    text.replace("/srv/", &format!("{place}/")).replace("/dev/sdb", &format!("{place}/disk"))
}

#[test]
fn the_quick_starts_run_and_leave_nothing() {
    if !can_mount() || !have(&["mkfs.ext4", "sqlite3", "fsfreeze"]) {
        return;
    }
    let _alone = no_namespaces();
    for (name, page) in STARTS {
        let (home, place) = (Home::new(), place());
        let own_name = format!("{name}-{}", std::process::id());
        let mountpoint = home.path().join("mnt");
        std::fs::create_dir(&mountpoint).expect("a fresh directory");
        for image in ["disk", "guest.img"] {
            std::fs::File::create(place.path().join(image))
                .and_then(|file| file.set_len(64 << 20))
                .expect("room");
        }
        run("mkfs.ext4", &["-q", plain(&place.path().join("disk"))]).well();
        let commands = own_commands(page, name, &own_name, place.path(), &mountpoint);
        let is_attached = commands.contains(&format!("detach {own_name}"));
        assert!(is_attached && !commands.contains("/mnt "), "{name}: {commands}");
        // Nothing is left of a run that fails.
        let undo = format!(
            "{{ umount {}; overdrive detach {own_name} --force; }} > /dev/null 2>&1 || true",
            plain(&mountpoint)
        );
        let script = format!("trap '{undo}' EXIT\n{commands}[ ! -e /dev/overdrive/{own_name} ]");
        let ended = shell(&home, &script).well();
        assert!(ended.stdout.contains(&own_name), "{name}: {}", ended.stdout);
    }
}

#[test]
fn the_disk_of_the_quick_start_for_guests_is_understood() {
    if !have(&["qemu-io"]) {
        return;
    }
    let (_, page) = STARTS[1];
    let line = page.lines().find(|line| line.contains("driver=host_device")).expect("a line");
    let place = place();
    // A file instead of a device.
    let options = line
        .trim()
        .replace("host_device", "file")
        .replace("node-name=guest,", "")
        .replace("/dev/overdrive/guest", plain(&image(&place, 8)));
    let ended = run("qemu-io", &["--image-opts", &options, "-c", "read 0 64k"]).well();
    assert!(!ended.stdout.contains("failed"), "{}", ended.stdout);
}

#[test]
fn the_first_commands_of_troubleshooting_work() {
    let (home, place) = (Home::new(), place());
    let page = include_str!("../../../../../docs/TROUBLESHOOTING.md");
    let commands = block(page, "first").replace("NAME", "db");
    let image = image(&place, 8);
    let script =
        format!("overdrive serve {} --name db --memory 4M --run '{commands}true'", plain(&image));
    let printed = shell(&home, &script).well().stdout;
    let shown = ["STATE", "No reads yet.", "io_uring"];
    assert!(shown.iter().all(|word| printed.contains(word)), "{printed}");
}

#[test]
fn the_configuration_file_of_the_options_serves_both_volumes() {
    let (home, place) = (Home::new(), place());
    let page = include_str!("../../../../../docs/OPTIONS.md");
    let text = fenced(page, "toml");
    // Devices and mounts have tests of their own, and need privileges.
    let lines =
        text.lines().filter(|line| !["attach", "fuse"].iter().any(|it| line.starts_with(it)));
    let text = lines.collect::<Vec<_>>().join("\n");
    assert!(!text.contains("attach =") && text.contains("dirty_age"), "{text}");
    // Before the paths, whose random names may hold these letters.
    let text = text.replace("8G", "4M").replace("2G", "4M");
    let text = text.replace("/dev/sdb", plain(&image(&place, 8)));
    let other = place.path().join("build.img");
    std::fs::write(&other, vec![0; 8 << 20]).expect("room");
    let text = text.replace("/srv/build.img", plain(&other));
    let text = text.replace("/run/overdrive/", &format!("{}/", plain(home.path())));
    let file = home.path().join("host.toml");
    std::fs::write(&file, text).expect("room");
    let list = "overdrive volume list -n -o name,state";
    let script = format!("overdrive serve --config {} --run '{list}'", plain(&file));
    let printed = shell(&home, &script).well().stdout;
    let rows: Vec<Vec<&str>> =
        printed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["build", "serving"], ["db", "serving"]], "{printed}");
}

#[test]
fn the_drive_of_the_page_of_drives_is_accepted() {
    let home = Home::new();
    let page = include_str!("../../../../../docs/DRIVES.md");
    let file = home.path().join("mine.toml");
    std::fs::write(&file, fenced(page, "toml")).expect("room");
    let printed = home.overdrive(&["drive", "models", "--check", plain(&file)]).well().stdout;
    assert!(printed.contains("The drive in my laptop"), "{printed}");
}
