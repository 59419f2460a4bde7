//! Routes by which the kernel reaches a volume.

/// A route by which the kernel reaches a volume that is a block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// The kernel's driver ublk.
    Ublk,
    /// A FUSE file under a loop device with direct I/O.
    Fuse,
    /// The kernel's NBD client, over our own sockets.
    Nbd,
}

impl Route {
    /// All of them, the best first.
    pub const ALL: [Route; 3] = [Route::Ublk, Route::Fuse, Route::Nbd];

    /// Returns the route as it is written.
    pub fn word(self) -> &'static str {
        match self {
            Route::Ublk => "ublk",
            Route::Fuse => "fuse",
            Route::Nbd => "nbd",
        }
    }

    /// Returns the route with this name.
    ///
    /// # Errors
    /// A list of all routes.
    pub fn parse(word: &str) -> Result<Route, String> {
        let found = Route::ALL.into_iter().find(|route| route.word() == word);
        found.ok_or_else(|| {
            let words = Route::ALL.map(Route::word).join(", ");
            format!("'{word}' is no route to a volume; write one of {words}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_known_by_its_word() {
        for route in Route::ALL {
            assert_eq!(Route::parse(route.word()), Ok(route));
        }
        let refused = Route::parse("iscsi").expect_err("not built");
        assert!(refused.contains("ublk, fuse, nbd"), "{refused}");
    }
}
