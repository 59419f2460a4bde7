//! Errors and delays of the server of an export, by nbdkit's filters `error` and `delay`.

use crate::common::{Server, have, have_libnbd, place, python};
use crate::exporter::Remote;
use crate::network::filled;
use std::fs;

/// Arguments: URI, the image, the file whose existence makes the server's requests fail, the error.
/// All blocks that no failed change has touched must stay as they were.
const ERRORS: &str = r#"
import nbd, os, sys
uri, path, bad, error = sys.argv[1:]
h = nbd.NBD(); h.connect_uri(uri)
image = bytearray(open(path, "rb").read())
MIB = 1 << 20

def fails(expected, act, *arguments):
    try: act(*arguments)
    except nbd.Error as found: assert found.errno == expected, found
    else: raise AssertionError(f"{act.__name__} succeeds")

h.pread(65536, 0)
open(bad, "w").close()
assert h.pread(65536, 0) == image[:65536], "it is cached"
fails(error, h.pwrite, b"A" * 8192, 2 * MIB)
fails(error, h.zero, 65536, 3 * MIB)
# A read has no error but this one.
fails("EIO", h.pread, 4096, 8 * MIB)
os.unlink(bad)
for at, data in [(2 * MIB, b"B" * 8192), (3 * MIB, b"C" * 65536)]:
    h.pwrite(data, at)
    image[at:at + len(data)] = data
h.flush()
for at in range(0, len(image), MIB):
    assert h.pread(MIB, at) == image[at:at + MIB], at
open(path + ".expected", "wb").write(image)
"#;

#[test]
fn an_error_of_a_server_reaches_the_client_and_changes_nothing_else() {
    if !have(&["nbdkit"]) || !have_libnbd() {
        return;
    }
    for error in ["EIO", "ENOSPC"] {
        let place = place();
        let path = |name: &str| place.path().join(name).display().to_string();
        let (image, bad) = (filled(&place).display().to_string(), path("bad"));
        let (file, kind) = (format!("file={image}"), format!("error={error}"));
        let trigger = format!("error-file={bad}");
        let filters = ["--filter=error", "--filter=delay", "file", &file];
        let parameters = ["error-rate=100%", &kind, &trigger, "rdelay=1ms", "wdelay=1ms"];
        let remote = Remote::nbdkit(&[&filters[..], &parameters].concat());
        let server = Server::start(remote.uri(), &["--memory", "8M", "--write", "through"]);
        python(ERRORS, &[&server.uri, &image, &bad, error]).well();
        server.end().well();
        let read = |path: &str| fs::read(path).expect("ours");
        assert!(read(&image) == read(&format!("{image}.expected")), "{error}");
    }
}
