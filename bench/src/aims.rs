//! What was aimed at, and what came of it.

use serde::Serialize;

#[derive(Debug, Serialize)]
struct Aim {
    aim: String,
    wanted: f64,
    measured: f64,
    is_met: bool,
}

#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Aims(Vec<Aim>);

impl Aims {
    pub(crate) fn at_least(&mut self, aim: String, wanted: f64, measured: f64) {
        self.0.push(Aim { aim, wanted, measured, is_met: measured >= wanted });
    }

    pub(crate) fn at_most(&mut self, aim: String, wanted: f64, measured: f64) {
        self.0.push(Aim { aim, wanted, measured, is_met: measured <= wanted });
    }

    pub(crate) fn print(&self) {
        println!("\nAims\n");
        for Aim { aim, wanted, measured, is_met } in &self.0 {
            let verdict = if *is_met { "met" } else { "NOT met" };
            println!("  {verdict:<8} {aim}: {measured:.2} ({wanted} wanted)");
        }
    }
}
