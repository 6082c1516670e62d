//! Checks drawings for text that can't be read.

use super::width;

/// One text of a drawing: its baseline, where it begins and ends, and what it says.
struct Text {
    y: f64,
    from: f64,
    to: f64,
    text: String,
}

fn texts(drawing: &str) -> Vec<Text> {
    let svg = format!("<svg>{drawing}</svg>");
    let document = roxmltree::Document::parse(&svg).unwrap();
    let all = document.descendants().filter(|node| node.has_tag_name("text"));
    all.map(|node| {
        let number = |name: &str| node.attribute(name).unwrap().parse::<f64>().unwrap();
        let (x, text) = (number("x"), node.text().unwrap_or_default().to_owned());
        let before = match node.attribute("text-anchor") {
            Some("middle") => 0.5,
            Some("end") => 1.0,
            _ => 0.0,
        };
        let from = x - before * width(&text);
        Text { y: number("y"), from, to: from + width(&text), text }
    })
    .collect()
}

/// Returns what is wrong with the labels of a drawing: two that overlap, or one that is beyond
/// the drawing's edges.
pub(crate) fn faults(drawing: &str, width: f64, height: f64) -> Vec<String> {
    let texts = texts(drawing);
    let mut faults = Vec::new();
    for (at, one) in texts.iter().enumerate() {
        if one.from < -0.5 || one.to > width + 0.5 || one.y < 8.0 || one.y > height {
            faults.push(format!("'{}' is beyond {width} x {height}", one.text));
        }
        for other in &texts[at + 1..] {
            if (one.y - other.y).abs() < 11.0 && one.from < other.to && other.from < one.to {
                faults.push(format!("'{}' overlaps '{}'", one.text, other.text));
            }
        }
    }
    faults
}
