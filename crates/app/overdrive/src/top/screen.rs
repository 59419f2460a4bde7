//! The screen: the table of volumes, and the chosen one below it.

use super::columns::{Column, fitting};
use super::view::View;
use block::{Size, printable};
use daemon::control::words::State;
use daemon::units::nanoseconds;
use live::{Snapshot, Volume};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{
    Block, Borders, Cell, Clear, Paragraph, Row, Sparkline, Table, TableState, Wrap,
};

/// Lines of the part about the chosen volume.
const DETAIL_LINES: u16 = 13;
/// Height below which that part is left out.
const HEIGHT_MIN: u16 = 20;

const KEYS: &str = "q, Esc, Ctrl-C  end\n\
                    Up, Down, j, k  choose a volume\n\
                    Home, End       the first and the last volume\n\
                    s               change the order\n\
                    ?, h            show or hide this help";

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot, view: &View) {
    let area = frame.area();
    let detail = if area.height >= HEIGHT_MIN { DETAIL_LINES } else { 0 };
    let parts = [
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(detail),
        Constraint::Length(1),
    ];
    let [head, table, below, foot] = Layout::vertical(parts).areas(area);
    let count = snapshot.volumes.len();
    let noun = if count == 1 { "volume" } else { "volumes" };
    let title = format!("overdrive top: {count} {noun}, {}", view.order.words());
    frame.render_widget(Paragraph::new(title).style(Modifier::BOLD), head);
    frame.render_widget(Paragraph::new("q end  s order  ? keys"), foot);
    if snapshot.volumes.is_empty() {
        let words = "No daemon of this user serves a volume. Start one with 'overdrive serve' or \
                     'overdrive attach'; it appears here by itself.";
        frame.render_widget(Paragraph::new(words).wrap(Wrap { trim: true }), table);
    } else {
        draw_table(frame, table, snapshot, view);
        let chosen = view.names.get(view.position()).and_then(|name| snapshot.find(name));
        if let Some(volume) = chosen.filter(|_| detail > 0) {
            draw_detail(frame, below, volume, snapshot);
        }
    }
    if view.has_help {
        draw_help(frame, area);
    }
}

fn style_of(volume: &Volume) -> Style {
    match volume.row.state {
        State::Serving => Color::Green.into(),
        State::Paused | State::Frozen | State::Ending => Color::Yellow.into(),
        _ => Style::from(Color::Red).add_modifier(Modifier::BOLD),
    }
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, view: &View) {
    let columns = fitting(area.width);
    let aligned = |column: &Column, text: String| {
        let alignment = if column.is_text { Alignment::Left } else { Alignment::Right };
        Text::from(text).alignment(alignment)
    };
    let row = |volume: &Volume| {
        let cell = |column: &Column| {
            let cell = Cell::from(aligned(column, column.cell(volume)));
            if column.head == "STATE" { cell.style(style_of(volume)) } else { cell }
        };
        Row::new(columns.iter().map(cell).collect::<Vec<_>>())
    };
    let volumes = view.names.iter().filter_map(|name| snapshot.find(name));
    let rows: Vec<Row<'_>> = volumes.map(row).collect();
    let widths = columns.iter().map(|column| match column.head {
        "VOLUME" => Constraint::Min(column.width),
        _ => Constraint::Length(column.width),
    });
    let heads = columns.iter().map(|column| aligned(column, column.head.to_owned()));
    let table = Table::new(rows, widths)
        .header(Row::new(heads).style(Modifier::BOLD))
        .row_highlight_style(Modifier::REVERSED);
    let mut state = TableState::default().with_selected(Some(view.position()));
    frame.render_stateful_widget(table, area, &mut state);
}

/// Draws the chosen volume: its hit ratio over time, and sentences.
fn draw_detail(frame: &mut Frame<'_>, area: Rect, volume: &Volume, snapshot: &Snapshot) {
    let name = format!(" {} ", printable(&volume.row.name));
    let block = Block::new().borders(Borders::TOP).title(name);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [curves, text] = Layout::vertical([Constraint::Length(3), Constraint::Min(1)]).areas(inner);
    let [label, line] =
        Layout::horizontal([Constraint::Length(22), Constraint::Min(1)]).areas(curves);
    let ratios = volume.points.iter().map(|(_, rates)| rates.hit_ratio);
    let mut shown: Vec<Option<u64>> =
        ratios.map(|ratio| ratio.map(|ratio| (ratio * 100.0) as u64)).collect();
    shown.drain(..shown.len().saturating_sub(line.width.into()));
    let latest = match volume.rates().and_then(|rates| rates.hit_ratio) {
        Some(ratio) => format!("hits {:.1} %", ratio * 100.0),
        None => "hits -".to_owned(),
    };
    let range = format!("{latest}\n0 to 100 %,\n{} intervals", shown.len());
    frame.render_widget(Paragraph::new(range), label);
    frame.render_widget(Sparkline::default().data(shown).max(100), line);
    let sentences = sentences(volume, snapshot);
    let lines: Vec<Line<'_>> = sentences.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), text);
}

/// Returns sentences about a volume, the most important first.
fn sentences(volume: &Volume, snapshot: &Snapshot) -> Vec<String> {
    let mut sentences: Vec<String> = volume.trouble(snapshot.now).into_iter().collect();
    let Some(stats) = &volume.stats else { return sentences };
    if let Some(rates) = volume.rates().filter(|_| stats.has_cache()) {
        let latency = |p50: Option<u64>, p99: Option<u64>| match (p50, p99) {
            (Some(p50), Some(p99)) => format!("{}, 99 % {}", nanoseconds(p50), nanoseconds(p99)),
            _ => "-".to_owned(),
        };
        sentences.push(format!(
            "Hits take {}; the backing {}. Dirty for {}; a flush would take {}.",
            latency(rates.hit_p50_ns, rates.hit_p99_ns),
            latency(rates.miss_p50_ns, rates.miss_p99_ns),
            nanoseconds(stats.counters.dirty_age_ns),
            nanoseconds(stats.counters.flush_predicted_ns),
        ));
    }
    let twice = stats.curve.as_ref().and_then(|curve| {
        let at = |bytes| curve.points.iter().find(|point| point.memory_bytes == bytes);
        Some((at(stats.memory_bytes)?.miss_ratio, at(stats.memory_bytes * 2)?.miss_ratio))
    });
    if let Some((now, more)) = twice {
        sentences.push(format!(
            "Twice the memory ({}) would miss {:.1} % of the accesses instead of {:.1} %.",
            Size(stats.memory_bytes * 2),
            more * 100.0,
            now * 100.0
        ));
    }
    sentences.extend(advice::of_volume(stats));
    sentences.iter().map(|sentence| printable(sentence).into_owned()).collect()
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let [place] =
        Layout::vertical([Constraint::Length(7)]).flex(ratatui::layout::Flex::Center).areas(area);
    let [place] = Layout::horizontal([Constraint::Length(48)])
        .flex(ratatui::layout::Flex::Center)
        .areas(place);
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(KEYS).block(Block::bordered().title(" Keys ")), place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use daemon::control::statistics::{Curve, Point, Statistics};
    use live::{Presence, Rates};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::sync::Arc;
    use std::time::Duration;

    fn volume(name: &str, presence: Presence) -> Volume {
        let row = serde_json::from_value(serde_json::json!({
            "name": name, "backing": "x", "state": "serving", "size_bytes": 1,
            "memory_bytes": 64 << 20, "write": "back", "dirty_bytes": 8192, "clients": 1, "uri": "",
            "pid": 7,
        }));
        let point =
            |memory_bytes, miss_ratio| Point { memory_bytes, miss_ratio, ..Point::default() };
        let points = vec![point(64 << 20, 0.5), point(128 << 20, 0.25)];
        let stats = Statistics {
            memory_bytes: 64 << 20,
            curve: Some(Curve { points, ..Curve::default() }),
            ..Statistics::default()
        };
        let rates = Rates { hit_ratio: Some(0.75), reads_per_s: 1234.0, ..Rates::default() };
        Volume {
            row: serde_json::from_value(row.expect("an object")).expect("a row"),
            socket: "x".into(),
            presence,
            stats: Some(Arc::new(stats)),
            points: [(Duration::ZERO, rates)].into(),
            seen: Duration::ZERO,
        }
    }

    fn drawn(width: u16, height: u16, volumes: Vec<Volume>, has_help: bool) -> String {
        let snapshot = Snapshot { volumes, number: 1, now: Duration::from_secs(9) };
        let mut view = View { has_help, ..View::default() };
        view.arrange(&snapshot);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
        terminal.draw(|frame| draw(frame, &snapshot, &view)).expect("memory");
        terminal.backend().to_string()
    }

    #[test]
    fn the_screen_has_figures_and_sentences() {
        let volumes = || vec![volume("db", Presence::Answering), volume("old", Presence::Ended)];
        let screen = drawn(120, 30, volumes(), false);
        for part in ["2 volumes, by name", "75.0", "1,234", "8 KiB", "would miss 25.0 %", "ended"] {
            assert!(screen.contains(part), "{part}: {screen}");
        }
        let ended = drawn(120, 30, vec![volume("old", Presence::Ended)], false);
        assert!(ended.contains("Its daemon (process 7) ended 9 s ago"), "{ended}");
        let help = drawn(60, 20, volumes(), true);
        assert!(KEYS.lines().all(|line| help.contains(line)), "{help}");
        assert!(drawn(80, 10, Vec::new(), false).contains("No daemon of this user"));
        // Nothing fits, and nothing fails.
        drawn(1, 1, volumes(), true);
    }
}
