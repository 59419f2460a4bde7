//! A volume as its clients meet it, whatever front they come by.

use super::site::Site;
use export::{Export, Session};
use std::rc::Rc;

/// A client of a volume, for its count and for C11.
struct Watched {
    site: Rc<Site>,
    client: Option<cache::Client>,
}

impl Session for Watched {
    fn flushed(&self) {
        if let Some(client) = &self.client {
            client.flushed();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.site.count_client(-1);
    }
}

/// What fronts serve of a volume.
pub(super) fn export(site: &Rc<Site>) -> Export {
    let mut export = Export::new(&site.name, site.attached.stack.clone());
    export.read_only = site.volume.is_read_only();
    export.stop = Some(site.stop.clone());
    let site = site.clone();
    export.session = Rc::new(move || {
        site.count_client(1);
        let client = site.shared().map(|shared| shared.client());
        Box::new(Watched { site: site.clone(), client }) as Box<dyn Session>
    });
    export
}
