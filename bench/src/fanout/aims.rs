//! What fan-out is meant to reach, and whether it did.

use serde::Serialize;

use super::deliver::{self, Mode};
use super::idle;
use super::way::{Transport, Way};
use crate::quiet::{Disturbed, OTHERS_SHARE_MAX};
use crate::table::Table;

const OF_BARE_LOOP_MIN: f64 = 0.7;
const OF_NATS_MIN: f64 = 1.0;
const USER_US_MAX: f64 = 1.0;
const CONNECTION_KIB_MAX: f64 = 12.0;

#[derive(Debug, Serialize)]
pub(crate) struct Aim {
    aim: String,
    #[serde(flatten)]
    way: Way,
    measured: f64,
    is_met: bool,
}

/// For each of Tidewire's ways that a session or a WebSocket goes.
pub(crate) fn judge(rows: &[deliver::Row], idle_rows: &[idle::Row]) -> Vec<Aim> {
    let mut aims = Vec::new();
    let mut ways: Vec<Way> = rows.iter().map(|row| row.way).collect();
    ways.extend(idle_rows.iter().map(|row| row.way));
    ways.retain(|way| way.server.is_tidewire() && way.transport != Transport::StreamSse);
    let mut judged = Vec::new();
    for way in ways {
        if !judged.contains(&way) {
            judged.push(way);
            judge_deliveries(rows, way, &mut aims);
            judge_idle(idle_rows, way, &mut aims);
        }
    }
    aims
}

fn judge_deliveries(rows: &[deliver::Row], way: Way, aims: &mut Vec<Aim>) {
    let of_mode = |mode| rows.iter().filter(move |row| row.way == way && row.mode == mode);
    let of_bare_loop = of_mode(Mode::Paced).filter_map(|row| row.of_bare_loop).reduce(f64::min);
    let of_nats = of_mode(Mode::FlatOut).filter_map(|row| row.of_nats).reduce(f64::min);
    let flat_out_us = of_mode(Mode::FlatOut)
        .filter_map(|row| Some(row.outcome.measured()?.cpu_per_delivery.server_user_us));
    let paced_us = of_mode(Mode::Paced).filter_map(|row| row.user_us_less_append);
    let user_us = flat_out_us.chain(paced_us).reduce(f64::max);
    let mut judge = |aim: &str, measured: Option<f64>, is_met: &dyn Fn(f64) -> bool| {
        if let Some(measured) = measured {
            aims.push(Aim { aim: aim.to_owned(), way, measured, is_met: is_met(measured) });
        }
    };
    judge("paced, of the bare loop: at least 0.7", of_bare_loop, &|x| x >= OF_BARE_LOOP_MIN);
    judge("flat out, of NATS: at least 1", of_nats, &|x| x >= OF_NATS_MIN);
    judge("own CPU per delivery, us: below 1", user_us, &|x| x < USER_US_MAX);
}

fn judge_idle(rows: &[idle::Row], way: Way, aims: &mut Vec<Aim>) {
    for row in rows.iter().filter(|row| row.way == way) {
        if let Some(idle) = row.outcome.measured() {
            let measured = idle.connection_kib;
            aims.push(Aim {
                aim: format!("KiB of each of {} idle connections: below 12", row.connections),
                way,
                measured,
                is_met: measured < CONNECTION_KIB_MAX,
            });
        }
    }
}

pub(crate) fn print(aims: &[Aim], rows: &[deliver::Row]) {
    if aims.is_empty() {
        return;
    }
    let mut table = Table::new(&["aim", "server", "worst measured", ""]);
    for aim in aims {
        let verdict = if aim.is_met { "met" } else { "NOT MET" };
        table.row(vec![
            aim.aim.clone(),
            aim.way.name(),
            format!("{:.2}", aim.measured),
            verdict.to_owned(),
        ]);
    }
    table.print("Aims (append's own share is taken off the CPU of paced deliveries)");
    // A ratio is worth no more than the worse of its two sides.
    let measured = rows.iter().filter_map(|row| row.outcome.measured());
    let others_share = measured.map(Disturbed::others_share).fold(0.0, f64::max);
    if others_share > OTHERS_SHARE_MAX {
        println!(
            "\n  DISTURBED: others used up to {:.0} % of the machine meanwhile, so these verdicts are \
             worth little",
            others_share * 100.0
        );
    }
}
