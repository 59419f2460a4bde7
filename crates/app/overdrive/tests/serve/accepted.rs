//! A served backing stays accepted, even if its clients write the signature of another format.

use crate::common::{OVERDRIVE, Server, have_libnbd, image, place, python, serve_in};
use crate::home::Home;
use crate::programs::install_script;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Headers of image formats by which they are recognized, with their offsets.
const HEADERS: [(&str, &[u8], u64); 9] = [
    ("qcow2", b"QFI\xfb\0\0\0\x03", 0),
    ("VMDK", b"KDMV\x01\0\0\0", 0),
    ("VHDX", b"vhdxfile", 0),
    ("VDI", b"\x7f\x10\xda\xbe", 0x40),
    ("VHD", b"conectix", 0),
    ("QED", b"QED\0", 0),
    ("Parallels", b"WithoutFreeSpace", 0),
    ("GFS2", &GFS2, 0x10000),
    ("OCFS2", b"OCFSV2", 0x1000),
];

/// The superblock of GFS2, as far as it is recognized: its mark, and the locking protocol of
/// several hosts.
const GFS2: [u8; 104] = {
    let (mark, lock) = (*b"\x01\x16\x19\x70\0\0\0\x01", *b"lock_dlm");
    let mut bytes = [0; 104];
    let mut at = 0;
    while at < 8 {
        bytes[at] = mark[at];
        bytes[96 + at] = lock[at];
        at += 1;
    }
    bytes
};

/// Writes these bytes as a client of the volume, and flushes.
fn write(uri: &str, bytes: &[u8], offset: u64) {
    let program = "import nbd, sys\n\
        h = nbd.NBD(); h.connect_uri(sys.argv[1])\n\
        h.pwrite(bytes.fromhex(sys.argv[2]), int(sys.argv[3])); h.flush(); h.shutdown()";
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    python(program, &[uri, &hex, &offset.to_string()]).well();
}

#[test]
fn what_a_client_writes_is_no_reason_to_refuse_the_next_process() {
    if !have_libnbd() {
        return;
    }
    for (name, header, offset) in HEADERS {
        let (home, place) = (Home::new(), place());
        let image = image(&place, 8);
        let options = ["--memory", "4M", "--write", "through"];
        let server = Server::start_in(&home, &image, &options);
        write(&server.uri, header, offset);
        // The same command line continues after a kill, with nothing dirty, and so does another
        // program.
        let server = server.reborn();
        home.overdrive(&["upgrade"]).well();
        let server = server.reborn();
        server.end().well();
        // A command line that names it for the first time is refused.
        let refused = serve_in(&home, &image, &["-q", "--run", "exit 99"]);
        refused.refused(2, &[name, "--raw"]);
        let server = Server::start_in(&home, &image, &["--raw"]);
        // Another image at that path is refused.
        home_with_another_image(&home, server, &image, header, offset, name);
    }
}

/// Replaces the image after a kill by another one, which was never accepted.
fn home_with_another_image(
    home: &Home,
    server: Server,
    image: &Path,
    header: &[u8],
    offset: u64,
    name: &str,
) {
    server.kill();
    fs::remove_file(image).expect("ours");
    let other = fs::File::create(image).expect("room");
    other.set_len(8 << 20).and_then(|()| other.write_all_at(header, offset)).expect("room");
    serve_in(home, image, &["-q", "--run", "exit 99"]).refused(2, &[name, "--raw"]);
}

#[test]
fn a_config_file_declares_what_it_names() {
    let (home, place) = (Home::new(), place());
    let image = image(&place, 8);
    let file = fs::File::options().write(true).open(&image).expect("ours");
    let (_, header, offset) = HEADERS[0];
    file.write_all_at(header, offset).expect("room");
    let config = place.path().join("overdrive.toml");
    let text = format!(
        "nbd = 'unix:{}'\n[volume.db]\nbacking = '{}'\nmemory = '4M'\n",
        home.socket().display(),
        image.display()
    );
    fs::write(&config, text).expect("room");
    let server =
        Server::run_in(&home, home.command(&["serve", "--config", config.to_str().expect("text")]));
    assert!(server.stderr().contains("qcow2 image, served byte by byte"), "{}", server.stderr());
    server.end().well();
}

/// Replaces the running program's file by a program that cannot serve.
fn replace_by_one_that_cannot_start(program: &Path) {
    let real = program.with_extension("real");
    // In its directory, because a daemon executes no programs of other directories.
    let _ = fs::hard_link(OVERDRIVE, &real);
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\nexec {} \"$@\" --not-an-option\n",
        real.display()
    );
    install_script(program, &script);
}

#[test]
fn an_upgrade_to_a_program_that_cannot_start_goes_on_with_the_one_before() {
    if !have_libnbd() {
        return;
    }
    let (home, place) = (Home::new(), place());
    let image = image(&place, 8);
    let program: PathBuf = place.path().join("overdrive");
    fs::hard_link(OVERDRIVE, &program).expect("one file system");
    let mut command = Command::new(&program);
    command.arg("serve").arg(&image).args(["--memory", "4M", "--write", "back-now"]);
    command.args(["--dirty-age", "1000s"]);
    let server = Server::spawn_in(&home, command);
    let check = "import nbd, sys\n\
        h = nbd.NBD(); h.connect_uri(sys.argv[1]); assert h.pread(1, 0) == b'D'";
    let program_text = "import nbd, sys\n\
        h = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b'D' * 4096, 0)";
    python(program_text, &[&server.uri]).well();
    replace_by_one_that_cannot_start(&program);
    for _ in 0..2 {
        home.overdrive(&["upgrade"])
            .refused(2, &["--not-an-option", "the former program continues"]);
        python(check, &[&server.uri]).well();
    }
    // A program that can serve takes over.
    fs::remove_file(&program).expect("ours");
    fs::hard_link(OVERDRIVE, &program).expect("one file system");
    home.overdrive(&["upgrade"]).well();
    python(check, &[&server.uri]).well();
    server.end().well();
}
