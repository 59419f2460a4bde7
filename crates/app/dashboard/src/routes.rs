//! The routes.

use crate::app::App;
use crate::requests::checks;
use crate::{actions, events, pages};
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use std::sync::Arc;

/// Returns the routes with their checks.
pub(crate) fn router(app: &Arc<App>) -> Router {
    Router::new()
        .route("/", get(pages::overview::page))
        .route("/login", get(pages::login::page).post(pages::login::log_in))
        .route("/logout", post(pages::login::log_out))
        .route("/volume/{name}", get(pages::volume::page))
        .route("/volume/{name}/map", get(pages::map::page).post(pages::map::make))
        .route("/volume/{name}/settings", post(actions::set))
        .route("/volume/{name}/{action}", get(pages::csv::of_volume).post(actions::act))
        .route("/drive", get(pages::drive::list))
        .route("/drive/{name}", get(pages::drive::health))
        .route("/drive/{name}/history.csv", get(pages::csv::of_drive))
        .route("/bench", get(pages::bench::page).post(pages::bench::start))
        .route("/bench/cancel", post(pages::bench::cancel))
        .route("/bench/result", get(pages::bench::result))
        .route("/bench/comparison", get(pages::bench::comparison))
        .route("/events/overview", get(events::overview))
        .route("/events/volume/{name}", get(events::volume))
        .route("/events/bench", get(events::bench))
        .route("/style.css", get(pages::style))
        .route("/live.js", get(pages::script))
        .route("/icon.svg", get(pages::icon))
        .fallback(pages::missing)
        .layer(from_fn_with_state(app.clone(), checks::check))
        .with_state(app.clone())
}
