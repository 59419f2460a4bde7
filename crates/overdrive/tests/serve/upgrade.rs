//! `overdrive upgrade`: another program in the same process, clients that connect again.

use crate::common::{Server, have_libnbd, image, place};
use crate::dice::scaled;
use crate::lives::Clients;

#[test]
fn a_daemon_is_upgraded_under_load_and_nothing_is_lost() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 24);
    let options = ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s"];
    let server = Server::start(&image, &options);
    let clients = Clients::start(&server.uri, place.path(), 2, 24);
    for _ in 0..scaled(4) {
        clients.go_on();
        server.home.overdrive(&["upgrade"]).well();
        clients.go_on();
        let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
        assert_eq!(rows["volumes"][0]["pid"], server.pid().as_raw_nonzero().get());
        assert_eq!(rows["volumes"][0]["state"], "serving");
    }
    clients.end();
    assert_eq!(server.home.holders().len(), 1, "its memory is kept as before");
    server.end().well();
}

#[test]
fn a_daemon_that_would_lose_its_memory_is_not_upgraded() {
    let place = place();
    let image = image(&place, 8);
    let server = Server::start(&image, &["--memory", "2M", "--no-holder"]);
    let refused = server.home.overdrive(&["upgrade"]);
    refused.refused(2, &["not kept by a holder", "restart it instead"]);
    server.volume(&["flush"]).well();
    server.end().well();
}
