//! An operation that is under way.

use crate::operation::Operation;
use block::{Padding, Request, Result, Stack, Unless};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Resolves to what a stack answers to an operation, and to the flush behind it. Small, and its request is
/// in the lane's memory already, because it is moved into a task.
pub struct Running {
    asked: Unless,
    /// Where a flush follows.
    then_flush: Option<Stack>,
    /// Answered in place of success.
    doubt: Result,
}

impl Running {
    /// `doubt`: see [`crate::Session::take_doubt`].
    pub(crate) fn new(stack: &Stack, operation: Operation, doubt: Result) -> Running {
        let Operation { request, padding, then_flush, .. } = operation;
        let asked = match padding {
            Padding::NONE => stack.run_unless_stalled(request),
            padding => stack.run_padded_unless_stalled(request, padding),
        };
        Running { asked, then_flush: then_flush.then(|| stack.clone()), doubt }
    }
}

impl Future for Running {
    type Output = Result;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result> {
        loop {
            let result = ready!(Pin::new(&mut self.asked).poll(context));
            match self.then_flush.take() {
                Some(stack) if result.is_ok() => {
                    self.asked = stack.run_unless_stalled(Request::Flush);
                }
                _ => return Poll::Ready(result.and(self.doubt)),
            }
        }
    }
}
