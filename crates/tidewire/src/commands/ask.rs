//! Asks for confirmation before something that cannot be undone.

use std::io::{self, BufRead, IsTerminal as _, Write};

use anyhow::{Context as _, bail};

/// Whether to go on: yes, if the flag says so, or the person does. Where there is nobody to ask, it is an error.
pub(crate) fn may(yes: bool, what: &str) -> anyhow::Result<bool> {
    if yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        bail!(
            "{what} This cannot be undone, and there is no terminal to confirm it: pass --yes to go ahead"
        );
    }
    let answer = ask(&mut io::stdin().lock(), &mut io::stderr().lock(), what);
    let agreed = answer.context("cannot read the answer")?;
    if !agreed {
        eprintln!("Nothing was done.");
    }
    Ok(agreed)
}

/// Puts the question. Only a yes is a yes.
fn ask(from: &mut impl BufRead, to: &mut impl Write, what: &str) -> io::Result<bool> {
    write!(to, "{what} Go on? [y/N] ")?;
    to.flush()?;
    let mut answer = String::new();
    from.read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        for (typed, meant) in
            [("y\n", true), ("YES\n", true), ("\n", false), ("", false), ("yet\n", false)]
        {
            let mut shown = Vec::new();
            let agreed = ask(&mut typed.as_bytes(), &mut shown, "It goes.").expect("memory");
            assert_eq!(agreed, meant, "{typed:?}");
            assert_eq!(shown, b"It goes. Go on? [y/N] ");
        }
    }
}
