//! Numbers as the report prints them: short in the table, exact enough in the JSON lines, the same digits on every run.

use core::fmt::{self, Write};

/// A short text on the stack, so that what was formatted can be aligned. What does not fit is refused with an error.
pub(crate) struct Text {
    bytes: [u8; 64],
    len: usize,
}

impl Text {
    /// Formats into a new text. Longer than 64 bytes is cut at the last whole piece, which no number or row name
    /// reaches.
    pub(crate) fn of(arguments: fmt::Arguments<'_>) -> Self {
        let mut text = Self { bytes: [0; 64], len: 0 };
        let _cut = text.write_fmt(arguments);
        text
    }

    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }
}

impl Write for Text {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let end = self.len + piece.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(piece.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A count per operation or PTE, with the digits that matter: `0`, `<.0001`, `0.0078`, `3.02`, `173.2`, `75265`.
pub(crate) fn count(value: f64) -> Text {
    let size = value.abs();
    match size {
        _ if size == 0.0 => Text::of(format_args!("0")),
        _ if size < 0.000_05 => Text::of(format_args!("<.0001")),
        _ if size < 0.1 => Text::of(format_args!("{value:.4}")),
        _ if size < 10.0 => Text::of(format_args!("{value:.2}")),
        _ if size < 1000.0 => Text::of(format_args!("{value:.1}")),
        _ => Text::of(format_args!("{value:.0}")),
    }
}

/// A per cent, with two decimals; `-` where there is none.
pub(crate) fn pct(value: Option<f64>) -> Text {
    optional(value.map(|value| Text::of(format_args!("{value:.2}"))))
}

/// Anything that may be missing; `-` where it is.
pub(crate) fn optional(value: Option<impl fmt::Display>) -> Text {
    value.map_or_else(|| Text::of(format_args!("-")), |value| Text::of(format_args!("{value}")))
}

/// A JSON number: a whole value without decimals, else with six; `null` where there is none or it is not finite.
pub(crate) struct Json(pub(crate) Option<f64>);

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) if value.is_finite() && value == libm::trunc(value) => write!(f, "{value:.0}"),
            Some(value) if value.is_finite() => write!(f, "{value:.6}"),
            _ => f.write_str("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn counts_keep_the_digits_that_matter() {
        let printed = [0.0, 1e-6, 0.007_812, 0.5, 3.016, 173.24, 75_265.4].map(|value| format!("{}", count(value)));
        assert_eq!(printed, ["0", "<.0001", "0.0078", "0.50", "3.02", "173.2", "75265"]);
        assert_eq!(format!("[{:>6}]", count(1.0)), "[  1.00]");
    }

    #[test]
    fn json_numbers_are_whole_where_they_are() {
        let printed = [Some(4.0), Some(-0.5), None, Some(f64::NAN)].map(|value| format!("{}", Json(value)));
        assert_eq!(printed, ["4", "-0.500000", "null", "null"]);
    }

    #[test]
    fn a_missing_value_is_a_dash() {
        assert_eq!(format!("{:>4}", pct(None)), "   -");
    }

    #[test]
    fn too_long_a_text_is_cut() {
        let text = Text::of(format_args!("{}{}", "short", "x".repeat(64)));
        assert_eq!(format!("{text}"), "short");
    }
}
