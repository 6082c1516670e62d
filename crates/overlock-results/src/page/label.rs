//! Text in charts: how wide it is, and for which labels there is room.

/// A character's width in pixels, of the font that charts are drawn in. Browsers choose the font,
/// so this is the widest of the usual ones (DejaVu Sans); in others, text takes less than its room.
const CHARACTER: f64 = 7.2;

/// The least distance between two labels beside each other, in pixels.
const GAP: f64 = 8.0;

pub(crate) fn width(text: &str) -> f64 {
    CHARACTER * text.chars().count() as f64
}

/// Cuts a text to this width; an ellipsis shows that something is missing.
pub(crate) fn cut(text: &str, room: f64) -> String {
    let most = (room / CHARACTER).max(1.0) as usize;
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most - 1).collect();
    format!("{}…", kept.trim_end_matches([' ', ',', '-']))
}

/// Breaks a text into lines of this width at most, between words.
pub(crate) fn lines(text: &str, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + width(word) + CHARACTER <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns those labels, centred below their places, that do not touch each other. Earlier ones
/// have precedence.
pub(crate) fn spaced(labels: impl IntoIterator<Item = (f64, String)>) -> Vec<(f64, String)> {
    let mut kept: Vec<(f64, String)> = Vec::new();
    for (at, text) in labels {
        let is_free = |(other, name): &(f64, String)| {
            (at - other).abs() >= (width(&text) + width(name)) / 2.0 + GAP
        };
        if kept.iter().all(is_free) {
            kept.push((at, text));
        }
    }
    kept
}

/// Moves labels that are below each other apart so that they do not overlap, as little as possible,
/// from `top` to `bottom`.
pub(crate) fn apart(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut heights = wanted.to_vec();
    let mut least = top;
    for at in &order {
        heights[*at] = heights[*at].max(least);
        least = heights[*at] + gap;
    }
    let mut most = bottom;
    for at in order.iter().rev() {
        heights[*at] = heights[*at].min(most);
        most = heights[*at] - gap;
    }
    heights
}

/// Formats a number without trailing zeros, and its unit: `2 M` instead of `2.00 M`.
pub(crate) fn trimmed(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    // Zero needs no unit.
    if number == "0" { number.into() } else { format!("{number} {unit}").trim_end().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lose_zeros_and_zero_its_unit() {
        for (text, short) in [("2.00 M", "2 M"), ("1.50", "1.5"), ("0 ns", "0"), ("200 k", "200 k")]
        {
            assert_eq!(trimmed(text), short);
        }
    }
}
