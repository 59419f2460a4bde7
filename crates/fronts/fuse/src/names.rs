//! The directory and its files, as far as a session has more information about them than an
//! outline.

use crate::codec::*;
use crate::device::Device;
use crate::file::ROOT;
use crate::listing::{Described, describe};
use crate::session::Session;

impl<D: Device> Session<D> {
    /// Answers all messages that do not concern a volume's data.
    pub(crate) fn describe(&self, header: &Header, question: Question<'_>) {
        match question {
            Question::Open => self.open(header),
            Question::Release { handle } => {
                if let Some(volume) = self.volume(header.node) {
                    volume.file.released(handle);
                }
                self.reply(Reply::done(header.unique));
            }
            other => match describe(&*self.mount, header, other) {
                Described::Plain(reply) => self.reply(reply),
                Described::Data(reply, data) => self.send(&self.outbox.copied(reply, &data)),
            },
        }
    }

    fn open(&self, header: &Header) {
        let Some(volume) = self.volume(header.node) else {
            let errno = if header.node == ROOT { EISDIR } else { ENOENT };
            return self.refuse(header, errno);
        };
        let Some(_busy) = volume.file.begin() else { return self.refuse(header, ENODEV) };
        let handle = self.mount.next_handle();
        volume.file.opened(handle, (volume.session)());
        let flags = OPEN_DIRECT_IO | OPEN_PARALLEL_DIRECT_WRITES;
        self.reply(Reply::opened(header.unique, handle, flags));
    }
}
