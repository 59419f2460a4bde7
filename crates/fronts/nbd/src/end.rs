//! How a connection ends, and what is awaited until then.

use block::Error;
use block::Wire;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum End {
    /// The client said goodbye (`NBD_CMD_DISC`, `NBD_OPT_ABORT`).
    Disconnected,
    /// The client went without a word.
    Closed,
    /// The server was asked to stop.
    Stopped,
    /// The handshake took too long, or the rest of a request where that is limited.
    TimedOut,
    /// The client asked for an export that does not exist, in the way that knows no other answer.
    Refused,
    /// The lane has no task slot free.
    Busy,
    /// What the client sent breaks the protocol: this was found.
    Malformed(&'static str),
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
            End::Refused => write!(f, "the client asked for an export that does not exist"),
            End::Busy => write!(f, "the lane has no free task slot; serve fewer connections"),
            End::Malformed(found) => write!(f, "the client broke the protocol: {found}"),
            End::Failed(error) => write!(f, "the connection broke: {error}"),
        }
    }
}

/// Runs what waits for the client until `over` says how the connection ends. Nothing is cancelled:
/// the wire is shut down, and the work ends because nothing comes any more.
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
