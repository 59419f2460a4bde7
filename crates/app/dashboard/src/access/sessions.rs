//! Sessions: what a browser has logged in with, by its cookie.

use super::Role;
use super::secret::Secret;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Maximum number of sessions; a further one ends the oldest.
const SESSIONS_MAX: usize = 64;
/// Time after which a session ends.
pub(crate) const SESSION_TIME: Duration = Duration::from_secs(12 * 3600);

/// A session.
#[derive(Clone)]
pub(crate) struct Session {
    id: Secret,
    /// The word that each of its forms contains.
    pub(crate) csrf: Secret,
    pub(crate) role: Role,
    begun: Duration,
}

impl Session {
    /// Returns the value of its cookie.
    pub(crate) fn id(&self) -> &str {
        self.id.text()
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.role == Role::Admin
    }
}

/// All sessions, in the memory of this process only.
#[derive(Default)]
pub(crate) struct Sessions(VecDeque<Session>);

impl Sessions {
    /// Begins a session. `now` is the time since the process began.
    pub(crate) fn begin(&mut self, role: Role, now: Duration) -> io::Result<Session> {
        let session = Session { id: Secret::new()?, csrf: Secret::new()?, role, begun: now };
        while self.0.len() >= SESSIONS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(session.clone());
        Ok(session)
    }

    /// Returns the session with this cookie.
    pub(crate) fn find(&self, id: &str, now: Duration) -> Option<Session> {
        let is_alive = |session: &&Session| now.saturating_sub(session.begun) < SESSION_TIME;
        self.0.iter().filter(is_alive).find(|session| session.id.is(id)).cloned()
    }

    /// Ends a session.
    pub(crate) fn end(&mut self, session: &Session) {
        self.0.retain(|one| one.id != session.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end_by_time_by_number_and_by_the_user() {
        let mut sessions = Sessions::default();
        let at = Duration::from_secs;
        let first = sessions.begin(Role::Viewer, at(10)).expect("random");
        let second = sessions.begin(Role::Admin, at(20)).expect("random");
        assert!(!sessions.find(first.id(), at(30)).expect("there").is_admin());
        assert!(sessions.find(second.id(), at(30)).expect("there").is_admin());
        assert!(sessions.find("", at(30)).is_none());
        let end = at(10) + SESSION_TIME;
        assert!(sessions.find(first.id(), end).is_none());
        assert!(sessions.find(second.id(), end).is_some());
        sessions.end(&second);
        assert!(sessions.find(second.id(), at(30)).is_none());
        for _ in 0..SESSIONS_MAX {
            sessions.begin(Role::Viewer, at(40)).expect("random");
        }
        assert!(sessions.find(first.id(), at(40)).is_none(), "the oldest of too many");
    }
}
