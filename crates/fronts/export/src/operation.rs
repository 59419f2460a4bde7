//! A client's request in the form in which it is served. The handling of FUA is decided here, for
//! all fronts.

use block::{Fua, Limits, Padding, Request};

/// A client's request with its padding and flags.
#[derive(Clone)]
pub struct Operation {
    pub(crate) request: Request,
    pub(crate) padding: Padding,
    /// A flush follows, and the answer waits for it.
    pub(crate) then_flush: bool,
    /// Proves that the client flushes (C11).
    pub(crate) is_proof: bool,
}

impl Operation {
    /// Creates an operation from a request with padding. A change with `fua` is durable when it is
    /// answered: the device does it if it can, else a flush follows. This replaces the request's
    /// own FUA flag. `fua` has no effect on other requests.
    #[inline]
    pub(crate) fn new(
        mut request: Request,
        padding: Padding,
        fua: bool,
        limits: &Limits,
    ) -> Operation {
        let fua = fua && request.is_change();
        let mut then_flush = fua && limits.flush_needed;
        if let Request::Write { fua: by_device, .. } | Request::Zero { fua: by_device, .. } =
            &mut request
        {
            *by_device = fua && !(limits.flush_needed && limits.fua == Fua::None);
            then_flush &= !*by_device;
        }
        let is_proof = fua || matches!(request, Request::Flush);
        Operation { request, padding, then_flush, is_proof }
    }

    /// Returns the request if it is the whole operation and covers whole blocks: a stack may then
    /// answer it immediately.
    #[inline]
    pub fn plain(&self) -> Option<&Request> {
        (!self.then_flush && self.padding == Padding::NONE).then_some(&self.request)
    }

    /// Whether it changes stored data.
    pub fn is_change(&self) -> bool {
        self.request.is_change()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Buf, Extent};

    /// Returns how FUA is met: whether the device gets the request with FUA, and whether a flush
    /// follows.
    fn fua_handling(request: Request, fua: bool, limits: &Limits) -> (bool, bool) {
        let operation = Operation::new(request, Padding::NONE, fua, limits);
        let by_device = match operation.request {
            Request::Write { fua, .. } | Request::Zero { fua, .. } => fua,
            _ => false,
        };
        (by_device, operation.then_flush)
    }

    #[test]
    fn fua_is_met_by_the_device_or_by_one_flush() {
        let plain = Limits::plain(64, 512);
        let none = Limits { flush_needed: true, fua: Fua::None, ..plain.clone() };
        let native = Limits { flush_needed: true, fua: Fua::Native, ..plain.clone() };
        let durable = Limits { flush_needed: false, fua: Fua::None, ..plain };
        let at = Extent::new(0, 1);
        // The request's own FUA flag is replaced.
        let write = || Request::Write { at, from: Buf::new(1, 512), fua: true };
        let zero = || Request::Zero { at, fua: true, may_unmap: true };
        let discard = || Request::Discard { at };
        for change in [write(), zero()] {
            assert_eq!(fua_handling(change.clone(), false, &none), (false, false));
            assert_eq!(fua_handling(change.clone(), true, &none), (false, true));
            assert_eq!(fua_handling(change.clone(), true, &native), (true, false));
            assert_eq!(fua_handling(change, true, &durable), (true, false));
        }
        // No device supports a discard with FUA.
        assert_eq!(fua_handling(discard(), true, &none), (false, true));
        assert_eq!(fua_handling(discard(), true, &native), (false, true));
        assert_eq!(fua_handling(discard(), true, &durable), (false, false));
        let read = Request::Read { at, into: Buf::new(1, 512) };
        assert_eq!(fua_handling(read, true, &none), (false, false));
        assert_eq!(fua_handling(Request::Flush, true, &none), (false, false));
    }

    #[test]
    fn a_flush_and_a_change_with_fua_are_proofs() {
        let limits = Limits::plain(64, 512);
        let at = Extent::new(0, 1);
        let is_proof = |request, fua| Operation::new(request, Padding::NONE, fua, &limits).is_proof;
        assert!(is_proof(Request::Flush, false) && is_proof(Request::Discard { at }, true));
        assert!(!is_proof(Request::Discard { at }, false));
        let read = Request::Read { at, into: Buf::new(1, 512) };
        assert!(!is_proof(read, true), "a read with FUA writes nothing");
    }
}
