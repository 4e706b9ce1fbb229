//! The reports in a real browser: nothing overflows, no label is cut or covers another. Needs Chromium. `cargo xtask browser` runs
//! the test as a step of CI, and skips it with a printed line if there is no Chromium.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Checks a page in a frame of each width, and writes the faults into the page around it.
const INSPECTION: &str = r#"
<pre id="result">not looked</pre>
<script>
const found = [];
let left = WIDTHS.length;
for (const width of WIDTHS) {
  const frame = document.createElement('iframe');
  frame.style.cssText = `width:${width}px;height:3000px;border:0`;
  frame.onload = () => {
    const page = frame.contentDocument;
    const view = page.documentElement;
    if (view.scrollWidth > width) found.push(`${width}: ${view.scrollWidth} px wide`);
    let texts = 0;
    for (const svg of page.querySelectorAll('svg')) {
      const box = svg.getBoundingClientRect();
      if (box.width === 0) continue;
      const seen = [];
      for (const text of svg.querySelectorAll('text')) {
        if (!text.textContent.trim()) continue;
        const at = text.getBoundingClientRect();
        for (const [other, there] of seen) {
          const across = Math.min(at.right, there.right) - Math.max(at.left, there.left);
          const down = Math.min(at.bottom, there.bottom) - Math.max(at.top, there.top);
          if (across > 2 && down > 4) found.push(`${width}: ${text.textContent.trim()} lies on ${other}`);
        }
        seen.push([text.textContent.trim(), at]);
        texts += 1;
        if (at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 1 || at.bottom > box.bottom + 1)
          found.push(`${width}: cut: ${text.textContent.trim()}`);
        if (at.height < 9) found.push(`${width}: too small: ${text.textContent.trim()}`);
      }
    }
    for (const cell of page.querySelectorAll('td, th')) {
      const at = cell.getBoundingClientRect();
      if (at.width > 0 && at.right > width) found.push(`${width}: cell: ${cell.textContent}`);
    }
    const ink = page.defaultView.getComputedStyle(page.body).color;
    found.push(`looked at ${width}: ${texts} labels, ink ${ink}`);
    left -= 1;
    if (left === 0) document.getElementById('result').textContent = found.join('\n');
  };
  frame.src = 'PAGE';
  document.body.append(frame);
}
</script>
"#;

fn chromium() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome", "chrome"].into_iter().find(|name| {
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    })
}

/// Starts a browser that prefers a colour scheme.
fn headless(browser: &str, folder: &Path, dark: bool) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--allow-file-access-from-files",
    ]);
    // Chromium's switch for the colour scheme that a page is told: 0 is dark.
    command.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)));
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command.arg("--virtual-time-budget=8000").timeout(Duration::from_secs(120));
    command
}

/// Keeps a picture of a page at this width, if `RINGCALL_SCREENSHOTS` names a folder.
fn keep(browser: &str, folder: &Path, page: &str, width: u32, dark: bool) {
    let Some(pictures) = std::env::var_os("RINGCALL_SCREENSHOTS") else { return };
    let scheme = if dark { "dark" } else { "light" };
    let picture = Path::new(&pictures).join(format!("{}-{width}-{scheme}.png", page.replace('.', "-")));
    // Chromium's window is never as narrow as a telephone, so the page is in a frame.
    let around = folder.join(format!("frame-{page}"));
    let frame = format!("<iframe src='{page}' style='width:{width}px;height:3600px;border:0'></iframe>");
    std::fs::write(&around, format!("<body style='margin:0'>{frame}</body>")).expect("written");
    let mut command = headless(browser, folder, dark);
    command.arg(format!("--window-size={},3600", width.max(500)));
    command.arg(format!("--screenshot={}", picture.display())).arg(&around).assert().success();
    assert!(picture.exists(), "{}", picture.display());
}

/// The faults that the browser finds in a page, in a colour scheme.
fn look(browser: &str, folder: &Path, page: &str, widths: &[u32], dark: bool) -> String {
    let around = folder.join(format!("look-at-{page}"));
    let inspection = INSPECTION.replace("PAGE", page).replace("WIDTHS", &format!("{widths:?}"));
    std::fs::write(&around, format!("<body>{}</body>", inspection)).expect("written");
    let output = headless(browser, folder, dark).arg("--dump-dom").arg(&around).output().expect("a browser");
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    let result = page.split("id=\"result\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    result.unwrap_or("no result").to_owned()
}

/// The commands that make the pages; the file is the last argument.
const MADE: [(&str, &[&str]); 4] = [
    ("run.html", &["run", "--requests", "300", "--interval-us", "1000", "--deadline-us", "50", "--report"]),
    (
        "sweep.html",
        &["sweep", "--distances", "3,5", "--noises", "0.006:0.013:5", "--shots", "4000", "--report"],
    ),
    ("explain.html", &["explain", "--distance", "3", "--p", "0.01", "--output"]),
    ("bench.json", &["bench", "floor-host", "host-call/32", "--trips", "500", "--requests", "500", "--json"]),
];

#[test]
#[ignore = "needs Chromium: `cargo xtask browser`"]
fn reports_fit_wide_and_narrow_windows_light_and_dark() {
    let browser = chromium().expect("Chromium (`apt-get install chromium`)");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    for (file, arguments) in MADE {
        let ringcall = || assert_cmd::Command::new(env!("CARGO_BIN_EXE_ringcall"));
        ringcall().args(arguments).arg(path(file)).timeout(Duration::from_secs(120)).assert().success();
        // The bench also draws a picture beside its JSON. A report shows it in a page, so this test does, too.
        let name = if file == "bench.json" {
            let svg = std::fs::read_to_string(path("bench.svg")).expect("a picture");
            let style = "svg { max-width: 100%; height: auto; } body { margin: 0; color: rgb(1, 2, 3); }";
            std::fs::write(path("bench.html"), format!("<style>{style}</style>{svg}")).expect("written");
            "bench.html"
        } else {
            file
        };
        // The bench's picture is a file of one width.
        let widths: &[u32] = if name == "bench.html" { &[1200] } else { &[1200, 400] };
        for dark in [false, true] {
            let result = look(browser, folder.path(), name, widths, dark);
            let ink = match (name, dark) {
                // The picture is white, whichever scheme its reader prefers.
                ("bench.html", _) => "ink rgb(1, 2, 3)",
                (_, true) => "ink rgb(229, 231, 235)",
                (_, false) => "ink rgb(31, 41, 55)",
            };
            let good = |line: &str| line.starts_with("looked at ") && line.ends_with(ink);
            assert!(
                result.lines().count() == widths.len() && result.lines().all(good),
                "{name}, dark {dark}:\n{result}"
            );
            for &width in widths {
                keep(browser, folder.path(), name, width, dark);
            }
        }
    }
}
