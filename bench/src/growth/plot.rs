//! A plot as SVG: lines over a logarithmic axis, from zero up.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Told apart without colours, too, by the names at their ends.
const COLOURS: [&str; 4] = ["#1b6ca8", "#b3541e", "#3d7a37", "#6b4c9a"];

/// What is drawn.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) across: String,
    pub(super) up: String,
    pub(super) lines: Vec<Line>,
}

/// A line, with its name.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

impl Plot {
    pub(super) fn svg(&self) -> String {
        let all = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        let low = all().map(|(x, _)| x.log10()).fold(f64::INFINITY, f64::min).floor();
        let high = all().map(|(x, _)| x.log10()).fold(low, f64::max).ceil().max(low + 1.0);
        let step = round_step(all().map(|(_, y)| y).fold(0.0, f64::max) / 4.0);
        let top = step * 5.0;
        let at_x = |x: f64| LEFT + (x.log10() - low) / (high - low) * (WIDTH - LEFT - RIGHT);
        let at_y = |y: f64| HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"24\" font-weight=\"bold\">{}</text>\n",
            escaped(&self.title)
        );
        for number in 0..=5 {
            let y = step * f64::from(number);
            let (line, right) = (at_y(y), WIDTH - RIGHT);
            // Writing to a String cannot fail.
            let _ = write!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{line:.1}\" x2=\"{right}\" y2=\"{line:.1}\" stroke=\"#ddd\"/>\n\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{} {}</text>\n",
                LEFT - 6.0,
                line + 4.0,
                number_of(y),
                escaped(&self.up),
            );
        }
        let mut decade = low;
        while decade <= high {
            let x = 10f64.powf(decade);
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                at_x(x),
                HEIGHT - BOTTOM + 18.0,
                number_of(x)
            );
            decade += 1.0;
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            HEIGHT - 10.0,
            escaped(&self.across)
        );
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let places: Vec<(f64, f64)> = line.points.iter().map(|(x, y)| (at_x(*x), at_y(*y))).collect();
            let text: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                text.join(" ")
            );
            for (x, y) in &places {
                let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
            }
            if let Some((x, y)) = places.last() {
                let (x, y) = (x + 8.0, y + 4.0);
                let _ = writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{colour}\">{}</text>",
                    escaped(&line.name)
                );
            }
        }
        svg + "</svg>\n"
    }
}

/// The next larger of 1, 2 and 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    if !step.is_finite() || step <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(step.log10().floor());
    let fits = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= step);
    fits.unwrap_or(10.0) * power
}

fn number_of(number: f64) -> String {
    let text = format!("{number:.2}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short.is_empty() { "0".to_owned() } else { short.to_owned() }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_lies_within_the_frame_and_higher_is_more() {
        let points = vec![(1_000.0, 0.5), (10_000.0, 0.9), (100_000.0, 0.7)];
        let plot = Plot {
            title: "a < b".into(),
            across: "jobs".into(),
            up: "ms".into(),
            lines: vec![Line { name: "1 node".into(), points }],
        };
        let svg = plot.svg();
        assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>\n"), "{svg}");
        let places = svg.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let places: Vec<(f64, f64)> = places
            .split(' ')
            .map(|place| {
                place.split_once(',').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap())).unwrap()
            })
            .collect();
        let inside = |&(x, y): &(f64, f64)| {
            (LEFT..=WIDTH - RIGHT).contains(&x) && (TOP..=HEIGHT - BOTTOM).contains(&y)
        };
        assert!(places.iter().all(inside), "{places:?}");
        assert!(places[0].0 < places[1].0 && places[1].0 < places[2].0, "{places:?}");
        assert!(places[1].1 < places[2].1 && places[2].1 < places[0].1, "{places:?}");
    }

    #[test]
    fn steps_are_round() {
        for (step, round) in [(0.13, 0.2), (0.2, 0.2), (3.0, 5.0), (70.0, 100.0), (0.0, 1.0)] {
            assert!((round_step(step) - round).abs() < 1e-9, "{step}");
        }
        assert_eq!(
            (number_of(0.5).as_str(), number_of(100_000.0).as_str(), number_of(0.0).as_str()),
            ("0.5", "100000", "0")
        );
    }
}
