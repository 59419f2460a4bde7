//! The checks of each request, its session, and the fields of its form.

pub(crate) mod checks;
pub(crate) mod form;
