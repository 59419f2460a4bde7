//! Agreement of the crate's own client and server.

use crate::client::Client;
use crate::scene::Scene;
use nbd::client::{Fault, Wish};
use nbd::codec::*;

fn wish(export: &str, structured: bool, contexts: &[&str]) -> Wish {
    let contexts = contexts.iter().map(|&name| name.to_owned()).collect();
    Wish { export: export.to_owned(), sizes: true, structured, contexts }
}

#[test]
fn a_client_gets_what_it_wishes_as_far_as_the_server_has_it() {
    let contexts = [ALLOCATION_CONTEXT, "qemu:dirty-bitmap:x"];
    Scene::timed().play(async move |client: Client| {
        let agreed = client.negotiate(wish("disk", false, &contexts)).await.expect("it is open");
        assert!(agreed.structured, "contexts need structure");
        assert_eq!(agreed.contexts, [(1, ALLOCATION_CONTEXT.to_owned())]);
        assert_eq!(agreed.export.bytes, 80 << 20);
        assert_eq!(agreed.sizes.expect("asked for").preferred, 4096);
        assert!(agreed.can(NBD_FLAG_SEND_FLUSH) && !agreed.can(NBD_FLAG_READ_ONLY));
        client.goodbye().await;
    });
}

#[test]
fn a_client_that_wishes_for_nothing_more_gets_the_export_alone() {
    Scene::timed().play(async |client: Client| {
        let agreed = client.negotiate(Wish::export("other")).await.expect("it is open");
        assert_eq!(agreed.export.bytes, 64 * 512);
        let sizes = agreed.sizes.expect("told to every client");
        assert_eq!(sizes.min, 512, "what a client that did not ask is told");
        assert!(!agreed.structured && agreed.contexts.is_empty());
        client.goodbye().await;
    });
}

#[test]
fn an_export_that_is_not_there_is_refused() {
    Scene::timed().play(async |client: Client| {
        let fault = client.negotiate(wish("nothing", true, &[])).await.expect_err("no such export");
        let refused = matches!(fault, Fault::Refused { reply: NBD_REP_ERR_UNKNOWN, .. });
        assert!(refused, "{fault}");
    });
}
