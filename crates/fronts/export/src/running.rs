//! An operation in flight.

use crate::operation::Operation;
use block::{Padding, Request, Result, Stack};
use layers::{ArrivalOrder, InOrder};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Future that resolves to the stack's answer to an operation and to the flush after it. It is
/// small, and its request is in the lane's memory already, because it is moved into a task.
pub struct Running {
    asked: InOrder,
    /// Set if a flush follows.
    then_flush: Option<(Stack, ArrivalOrder)>,
    /// Error that is answered instead of success.
    doubt: Result,
}

impl Running {
    /// Orders changes by the order of these calls. `doubt`: see [`crate::Session::take_doubt`].
    pub(crate) fn new(
        stack: &Stack,
        order: &ArrivalOrder,
        operation: Operation,
        doubt: Result,
    ) -> Running {
        let Operation { request, padding, then_flush, .. } = operation;
        let asked = order.run(stack, request, padding);
        Running { asked, then_flush: then_flush.then(|| (stack.clone(), order.clone())), doubt }
    }
}

impl Future for Running {
    type Output = Result;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result> {
        loop {
            let result = ready!(Pin::new(&mut self.asked).poll(context));
            match self.then_flush.take() {
                Some((stack, order)) if result.is_ok() => {
                    self.asked = order.run(&stack, Request::Flush, Padding::NONE);
                }
                _ => return Poll::Ready(result.and(self.doubt)),
            }
        }
    }
}
