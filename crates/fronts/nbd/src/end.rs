//! The end of a connection, and the waits that end with it.

use block::Error;
use block::Wire;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use tls::Refusal;

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum End {
    /// The client said goodbye (`NBD_CMD_DISC`, `NBD_OPT_ABORT`).
    Disconnected,
    /// The client closed the connection without a farewell.
    Closed,
    /// The server stopped.
    Stopped,
    /// The handshake took too long, or the rest of a request if that is limited.
    TimedOut,
    /// The client requested an export that does not exist, with an option that has no error reply.
    Refused,
    /// The lane has no task slot free.
    Busy,
    /// The client violated the protocol in this way.
    Malformed(&'static str),
    /// The client has not started TLS, which is required.
    Unprotected,
    /// The client is not trusted, or does not trust the server.
    Untrusted(Refusal),
    /// The wire failed.
    Failed(Error),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Disconnected => write!(f, "the client disconnected"),
            End::Closed => write!(f, "the client closed the connection"),
            End::Stopped => write!(f, "the server is stopping"),
            End::TimedOut => write!(f, "the client took too long"),
            End::Refused => write!(f, "the client requested an export that does not exist"),
            End::Busy => write!(f, "the lane has no free task slot; serve fewer connections"),
            End::Malformed(found) => write!(f, "the client broke the protocol: {found}"),
            End::Unprotected => write!(f, "the client has not started TLS, which is required"),
            End::Untrusted(refusal) => write!(f, "the client cannot use TLS here: {refusal}"),
            End::Failed(error) => write!(f, "the connection broke: {error}"),
        }
    }
}

/// Runs work that waits for the client until `over` returns how the connection ends. Nothing is
/// cancelled: the wire is shut down, and the work ends because no more data arrives.
pub(crate) async fn until<W: Wire, T>(
    wire: &W,
    over: impl Future<Output = End>,
    work: impl Future<Output = Result<T, End>>,
) -> Result<T, End> {
    let (mut over, mut work) = (pin!(over), pin!(work));
    let mut ended = None;
    std::future::poll_fn(|context| {
        loop {
            if let Poll::Ready(result) = work.as_mut().poll(context) {
                return Poll::Ready(ended.map_or(result, Err));
            }
            if ended.is_some() {
                return Poll::Pending;
            }
            let Poll::Ready(end) = over.as_mut().poll(context) else { return Poll::Pending };
            ended = Some(end);
            wire.shutdown();
        }
    })
    .await
}
