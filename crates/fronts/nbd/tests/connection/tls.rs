//! Connections over TLS: options before it and over it, and trust between both sides.

use crate::client::{Client, request};
use crate::scene::Scene;
use ::tls::{ClientTls, Refusal, ServerTls, TlsWire};
use authority::{Authority, EXPIRED, Side, VALID};
use block::Memory;
use lane::World;
use nbd::client::{Agreed, Fault, Negotiation, Remote, Wish};
use nbd::codec::*;
use nbd::{End, Pipe, Wire, pipe};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use tempfile::TempDir;

const BARE: u32 = NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES;
const SERIAL: u64 = 7;

/// Certificates of both sides.
struct Trust {
    authority: Authority,
    directory: TempDir,
}

impl Trust {
    fn new() -> Trust {
        let authority = Authority::new("A");
        let directory = tempfile::tempdir().expect("room");
        let trust = Trust { authority, directory };
        trust.authority.trust(trust.directory.path());
        trust.issue(Side::Server, "localhost", VALID);
        trust.issue(Side::Client, "client", VALID);
        trust
    }

    fn issue(&self, side: Side, host: &str, last_year: i32) {
        self.authority.issue(self.directory.path(), side, &[host], last_year, SERIAL);
    }

    /// Returns a scene whose server requires TLS, or offers it.
    fn scene(&self, is_required: bool) -> Scene {
        let mut scene = Scene::timed();
        let tls = ServerTls::open(self.directory.path(), is_required, true).expect("valid");
        scene.options.tls = Some(Arc::new(tls));
        scene
    }

    fn client(&self) -> ClientTls {
        ClientTls::open(self.directory.path(), "localhost").expect("valid")
    }
}

/// Starts TLS after the greeting.
async fn protect(client: Client, tls: &ClientTls) -> Result<Client<TlsWire<Pipe>>, Refusal> {
    let replies = client.option(NBD_OPT_STARTTLS, &[]).await;
    assert_eq!(replies, [(NBD_REP_ACK, vec![])]);
    let Client { wire, structured, .. } = client;
    let wire = TlsWire::new(wire, tls.session());
    wire.handshake().await.map(|()| Client::new(wire, structured))
}

/// Reads, writes and reads again, in sizes below and above that of a record.
async fn transfer(client: &Client<TlsWire<Pipe>>) {
    for (index, length) in [512, 4096, 16384, 69632, 1 << 20].into_iter().enumerate() {
        let data: Vec<u8> = (0..length).map(|at| (at / 7 + index) as u8).collect();
        assert_eq!(client.write(0, 0, &data).await, 0);
        assert_eq!(client.read(0, length as u32).await, (0, data));
    }
}

#[test]
fn volumes_are_served_over_tls_in_pieces_of_any_size() {
    for (capacity, structured) in [(1 << 20, true), (1000, false), (61, false)] {
        let trust = Trust::new();
        let (mut scene, tls) = (trust.scene(true), trust.client());
        (scene.capacity, scene.structured) = (capacity, structured);
        let (end, ()) = scene.play(async move |client: Client| {
            client.greet(BARE).await;
            let client = protect(client, &tls).await.expect("both are trusted");
            if structured {
                let replies = client.option(NBD_OPT_STRUCTURED_REPLY, &[]).await;
                assert_eq!(replies, [(NBD_REP_ACK, vec![])]);
            }
            let repeated = client.option(NBD_OPT_STARTTLS, &[]).await;
            assert_eq!(repeated, [(NBD_REP_ERR_INVALID, vec![])]);
            client.enter("disk").await;
            transfer(&client).await;
            client.goodbye().await;
        });
        assert_eq!(end, End::Disconnected);
    }
}

#[test]
fn many_requests_in_one_message_share_a_receive_and_a_send() {
    let trust = Trust::new();
    let (scene, tls) = (trust.scene(true), trust.client());
    let counts = scene.counts.clone();
    let (end, ()) = scene.play(async move |client: Client| {
        client.greet(BARE).await;
        let client = protect(client, &tls).await.expect("both are trusted");
        client.enter("disk").await;
        client.read(0, 4096 * 32).await;
        let (receives, sends) = (counts.receives.get(), counts.sends.get());
        let requests = (0..32).map(|at| request(NBD_CMD_READ, at, at * 4096, 4096).encode());
        client.send(&requests.flatten().collect::<Vec<u8>>()).await;
        for _ in 0..32 {
            assert_eq!(client.reply().await.expect("a reply").error, 0);
        }
        assert!(counts.receives.get() - receives <= 2, "one, and the next");
        assert!(counts.sends.get() - sends <= 4);
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn nothing_is_shown_or_opened_before_tls_where_it_is_required() {
    let trust = Trust::new();
    let scene = trust.scene(true);
    let (log, tls) = (scene.log(), trust.client());
    let (end, ()) = scene.play(async move |client: Client| {
        client.greet(BARE).await;
        let go = InfoRequest::encode("", &[]);
        let long = vec![0; OPTION_BYTES_MAX + 1];
        for (option, data) in [
            (NBD_OPT_LIST, &[][..]),
            (NBD_OPT_INFO, &go),
            (NBD_OPT_GO, &go),
            (NBD_OPT_STRUCTURED_REPLY, &[]),
            (NBD_OPT_SET_META_CONTEXT, &MetaRequest::encode("", &[ALLOCATION_CONTEXT])),
            (NBD_OPT_LIST, &long),
            (77, &[]),
        ] {
            let replies = client.option(option, data).await;
            assert_eq!(replies, [(NBD_REP_ERR_TLS_REQD, vec![])], "option {option}");
        }
        assert_eq!(client.option(NBD_OPT_STARTTLS, b"x").await, [(NBD_REP_ERR_INVALID, vec![])]);
        let client = protect(client, &tls).await.expect("both are trusted");
        assert_eq!(client.option(NBD_OPT_ABORT, &[]).await, [(NBD_REP_ACK, vec![])]);
    });
    assert_eq!(end, End::Disconnected);
    assert!(log.borrow().is_empty(), "{:?}", log.borrow());
    let (end, ()) = trust.scene(true).play(async |client: Client| {
        client.greet(BARE).await;
        assert_eq!(client.option(NBD_OPT_EXPORT_NAME, b"disk").await, []);
    });
    assert_eq!(end, End::Unprotected);
}

#[test]
fn tls_is_a_choice_where_it_is_offered_and_unknown_where_it_is_not() {
    let trust = Trust::new();
    let (end, ()) = trust.scene(false).play(async |client: Client| {
        client.greet(BARE).await;
        client.enter("disk").await;
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
    let (end, ()) = Scene::timed().play(async |client: Client| {
        client.greet(BARE).await;
        let replies = client.option(NBD_OPT_STARTTLS, &[]).await;
        assert_eq!(replies, [(NBD_REP_ERR_UNSUP, vec![])]);
        client.enter("disk").await;
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn what_was_negotiated_before_tls_is_forgotten() {
    let trust = Trust::new();
    let (scene, tls) = (trust.scene(false), trust.client());
    let (end, ()) = scene.play(async move |client: Client| {
        client.greet(BARE).await;
        let structured = client.option(NBD_OPT_STRUCTURED_REPLY, &[]).await;
        assert_eq!(structured, [(NBD_REP_ACK, vec![])]);
        client.select("disk", &[ALLOCATION_CONTEXT]).await;
        let client = protect(client, &tls).await.expect("both are trusted");
        let refused = client.select("disk", &[ALLOCATION_CONTEXT]).await;
        assert_eq!(refused, [(NBD_REP_ERR_INVALID, vec![])], "it needs structured replies");
        client.enter("disk").await;
        // Parsed as a simple reply.
        assert_eq!(client.read(0, 512).await, (0, vec![0; 512]));
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn bytes_that_follow_the_start_of_tls_unencrypted_end_the_connection() {
    for is_required in [true, false] {
        let trust = Trust::new();
        let (end, ()) = trust.scene(is_required).play(async |client: Client| {
            client.greet(BARE).await;
            let mut bytes = Vec::new();
            put_option(&mut bytes, NBD_OPT_STARTTLS, &[]);
            put_option(&mut bytes, NBD_OPT_LIST, &[]);
            client.send(&bytes).await;
            assert_eq!(client.receive(1).await, None, "no answer");
        });
        assert_eq!(end, End::Malformed("unencrypted bytes after NBD_OPT_STARTTLS"));
    }
}

#[test]
fn bytes_that_are_not_tls_end_the_connection() {
    let request = request(NBD_CMD_READ, 1, 0, 512).encode();
    for bytes in [&request[..], &[0x16, 3, 1, 0xff, 0xff], &[0; 40]] {
        let (trust, bytes) = (Trust::new(), bytes.to_vec());
        let (end, ()) = trust.scene(true).play(async move |client: Client| {
            client.greet(BARE).await;
            client.option(NBD_OPT_STARTTLS, &[]).await;
            client.send(&bytes).await;
            // Perhaps an alert, then the end.
            while client.receive(1).await.is_some() {}
        });
        assert!(matches!(end, End::Untrusted(_)), "{end:?}");
    }
}

/// Lets a client try to start TLS and read the first sector. Returns the server's end, and the
/// reason why the client did not succeed.
fn attempt(scene: Scene, tls: ClientTls) -> (End, Option<String>) {
    let log = scene.log();
    let (end, refusal) = scene.play(async move |client: Client| {
        client.greet(BARE).await;
        let client = match protect(client, &tls).await {
            Err(refusal) => return Some(refusal.to_string()),
            Ok(client) => client,
        };
        let replies = client.option(NBD_OPT_LIST, &[]).await;
        match client.wire.failed() {
            Some(refusal) => Some(refusal.to_string()),
            None => {
                assert_eq!(replies.last(), Some(&(NBD_REP_ACK, vec![])));
                client.option(NBD_OPT_ABORT, &[]).await;
                None
            }
        }
    });
    assert!(log.borrow().is_empty(), "nothing was opened: {:?}", log.borrow());
    (end, refusal)
}

/// Asserts the sentences of both sides.
fn refused(scene: Scene, tls: ClientTls, by_server: &str, by_client: &str) {
    let (end, refusal) = attempt(scene, tls);
    let end = end.to_string();
    assert!(end.contains(by_server), "{end}");
    assert!(refusal.as_deref().is_some_and(|refusal| refusal.contains(by_client)), "{refusal:?}");
}

#[test]
fn a_client_that_is_not_trusted_gets_nothing() {
    let trust = Trust::new();
    assert_eq!(attempt(trust.scene(true), trust.client()), (End::Disconnected, None));
    trust.issue(Side::Client, "client", EXPIRED);
    refused(
        trust.scene(true),
        trust.client(),
        "its certificate has expired",
        "this certificate has expired",
    );
    let other = Trust::new();
    trust.authority.trust(other.directory.path());
    refused(
        trust.scene(true),
        other.client(),
        "an authority that is not in ca-cert.pem",
        "the authority of this certificate",
    );
    for file in ["client-cert.pem", "client-key.pem"] {
        std::fs::remove_file(other.directory.path().join(file)).expect("there");
    }
    refused(trust.scene(true), other.client(), "sent no certificate", "requires a certificate");
    // A server's certificate, as that of a client.
    for kind in ["cert", "key"] {
        let of = |side| trust.directory.path().join(format!("{side}-{kind}.pem"));
        std::fs::copy(of("server"), of("client")).expect("room");
    }
    refused(trust.scene(true), trust.client(), "not for this side", "not accept this certificate");
    trust.issue(Side::Client, "client", VALID);
    trust.issue(Side::Server, "localhost", VALID);
    let tls = trust.client();
    trust.authority.revoke(trust.directory.path(), SERIAL);
    refused(trust.scene(true), tls, "its certificate was revoked", "this certificate was revoked");
}

#[test]
fn a_server_that_is_not_trusted_gets_nothing() {
    let trust = Trust::new();
    trust.issue(Side::Server, "otherhost", VALID);
    refused(
        trust.scene(true),
        trust.client(),
        "does not accept this certificate",
        "its certificate is of another host",
    );
    trust.issue(Side::Server, "localhost", EXPIRED);
    refused(
        trust.scene(true),
        trust.client(),
        "this certificate has expired",
        "its certificate has expired",
    );
    let other = Trust::new();
    refused(
        other.scene(true),
        trust.client(),
        "the authority of this certificate",
        "an authority that is not in ca-cert.pem",
    );
}

#[test]
fn a_renewed_certificate_is_for_new_connections_and_cuts_none() {
    let trust = Trust::new();
    let mut scene = trust.scene(true);
    let server = Arc::new(ServerTls::open(trust.directory.path(), true, true).expect("valid"));
    scene.options.tls = Some(server.clone());
    trust.issue(Side::Server, "otherhost", VALID);
    let (end, ()) = scene.play(async move |client: Client| {
        let tls = trust.client();
        client.greet(BARE).await;
        let client = protect(client, &tls).await.expect("the former certificate");
        client.enter("disk").await;
        assert_eq!(server.renew(), Ok(true));
        transfer(&client).await;
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn a_client_that_leaves_tls_unfinished_is_timed_out() {
    let trust = Trust::new();
    let (end, ()) = trust.scene(true).play(async |client: Client| {
        client.greet(BARE).await;
        client.option(NBD_OPT_STARTTLS, &[]).await;
        assert_eq!(client.receive(1).await, None, "the server hangs up");
    });
    assert_eq!(end, End::TimedOut);
}

/// The bytes of a server that greets and answers `NBD_OPT_STARTTLS`, in one piece.
fn server_that_answers(reply: u32, more: &[u8]) -> Vec<u8> {
    let mut bytes = Greeting { flags: NBD_FLAG_FIXED_NEWSTYLE }.encode().to_vec();
    put_reply(&mut bytes, NBD_OPT_STARTTLS, reply, &[]);
    bytes.extend_from_slice(more);
    bytes
}

#[test]
fn the_client_sends_nothing_but_the_start_of_tls_unencrypted() {
    let start = |bytes: &[u8]| {
        let (mut negotiation, mut out) = (Negotiation::over_tls(Wish::export("disk")), Vec::new());
        let result = negotiation.take(&mut &bytes[..], &mut out);
        let mut wanted = NBD_FLAG_C_FIXED_NEWSTYLE.to_be_bytes().to_vec();
        put_option(&mut wanted, NBD_OPT_STARTTLS, &[]);
        assert_eq!(out, wanted, "no option that concerns the export");
        (negotiation, result)
    };
    let (negotiation, result) = start(&server_that_answers(NBD_REP_ACK, &[]));
    assert!(result == Ok(None) && negotiation.starts_tls());
    for refusal in [NBD_REP_ERR_UNSUP, NBD_REP_ERR_POLICY] {
        let (negotiation, result) = start(&server_that_answers(refusal, &[]));
        assert!(result == Err(Fault::NoTls) && !negotiation.starts_tls());
    }
    // Replies that another party has added, to be taken for those of the encrypted stream.
    let mut more = Vec::new();
    put_reply(&mut more, NBD_OPT_GO, NBD_REP_ACK, &[]);
    let (_, result) = start(&server_that_answers(NBD_REP_ACK, &more));
    assert_eq!(result, Err(Fault::Nonsense("unencrypted bytes after the start of TLS")));
    let (_, result) = start(&server_that_answers(NBD_REP_INFO, &[]));
    assert!(matches!(result, Err(Fault::Nonsense(_))), "{result:?}");
}

#[test]
fn the_server_announces_an_orderly_end_and_no_other() {
    let ends: [(&[u8], bool); 2] =
        [(&request(NBD_CMD_DISC, 0, 0, 0).encode(), true), (&[0; REQUEST_BYTES], false)];
    for (last_bytes, is_orderly) in ends {
        let (trust, last_bytes) = (Trust::new(), last_bytes.to_vec());
        let tls = trust.client();
        let (_, announced) = trust.scene(true).play(async move |client: Client| {
            client.greet(BARE).await;
            let client = protect(client, &tls).await.expect("both are trusted");
            client.enter("disk").await;
            client.send(&last_bytes).await;
            assert_eq!(client.receive(1).await, None);
            client.wire.has_ended()
        });
        assert_eq!(announced, is_orderly);
    }
    let trust = Trust::new();
    let tls = trust.client();
    let (end, announced) = trust.scene(true).play(async move |client: Client| {
        client.greet(BARE).await;
        let client = protect(client, &tls).await.expect("both are trusted");
        assert_eq!(client.option(NBD_OPT_ABORT, &[]).await, [(NBD_REP_ACK, vec![])]);
        assert_eq!(client.receive(1).await, None);
        client.wire.has_ended()
    });
    assert_eq!((end, announced), (End::Disconnected, true));
}

#[test]
fn a_server_that_stops_announces_it_once_all_is_answered() {
    let trust = Trust::new();
    let (scene, tls) = (trust.scene(true), trust.client());
    let stop = scene.options.stop.clone();
    let (end, announced) = scene.play(async move |client: Client| {
        client.greet(BARE).await;
        let client = protect(client, &tls).await.expect("both are trusted");
        client.enter("disk").await;
        assert_eq!(client.read(0, 512).await.0, 0);
        stop.ask();
        assert_eq!(client.receive(1).await, None);
        client.wire.has_ended()
    });
    assert_eq!((end, announced), (End::Stopped, true));
}

#[test]
fn the_client_of_an_export_announces_its_end() {
    let trust = Trust::new();
    let server = ServerTls::open(trust.directory.path(), true, true).expect("valid");
    let tls = trust.client();
    let mut world = World::chosen(1);
    let lane = world.lane();
    let (theirs, ours) = pipe(1 << 16);
    let done = Rc::new(Cell::new(false));
    let (flag, acting) = (done.clone(), lane.clone());
    lane.spawn(async move {
        let ours = TlsWire::new(ours, tls.session());
        ours.handshake().await.expect("both are trusted");
        let export = ExportInfo { bytes: 1 << 20, flags: NBD_FLAG_SEND_FLUSH };
        let agreed = Agreed { export, sizes: None, structured: false, contexts: Vec::new() };
        Remote::from_wire(&acting, ours, &agreed).leave();
    })
    .expect("room");
    lane.spawn(async move {
        let theirs = TlsWire::new(theirs, server.session());
        theirs.handshake().await.expect("both are trusted");
        let memory = Arc::new(Memory::heap(REQUEST_BYTES));
        assert_eq!(theirs.receive(&memory, 0, REQUEST_BYTES).await, Ok(REQUEST_BYTES));
        assert_eq!(theirs.receive(&memory, 0, 1).await, Ok(0));
        flag.set(theirs.has_ended());
    })
    .expect("room");
    assert!(world.run_until(|| done.get()), "the end is not announced");
    world.abandon();
}
