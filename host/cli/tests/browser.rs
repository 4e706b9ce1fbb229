//! The reports in a real browser: nothing overflows, and no label is cut. Skipped with a line where there is no Chromium.

#![allow(clippy::print_stdout)] // says what was skipped

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Looks at a page in a frame of each width, and writes what is wrong into the page around it.
const INSPECTION: &str = r#"
<pre id="result">not looked</pre>
<script>
const found = [];
let left = 2;
for (const width of [1200, 400]) {
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
      for (const text of svg.querySelectorAll('text')) {
        if (!text.textContent.trim()) continue;
        const at = text.getBoundingClientRect();
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

/// What the browser says of a page, in a colour scheme.
fn look(browser: &str, folder: &Path, page: &str, dark: bool) -> String {
    let around = folder.join(format!("look-at-{page}"));
    std::fs::write(&around, format!("<body>{}</body>", INSPECTION.replace("PAGE", page))).expect("written");
    let mut command = assert_cmd::Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        "--dump-dom",
    ]);
    // Chromium's own switch for what pages are told that their reader prefers: 0 is dark.
    command.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)));
    command
        .arg("--virtual-time-budget=8000")
        .arg(format!("--user-data-dir={}", folder.join("profile").display()));
    let output = command.arg(&around).timeout(Duration::from_secs(120)).output().expect("a browser");
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    let result = page.split("id=\"result\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    result.unwrap_or("no result").to_owned()
}

#[test]
fn reports_fit_wide_and_narrow_windows_light_and_dark() {
    let Some(browser) = chromium() else {
        println!("skipped: no Chromium (`apt-get install chromium`)");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let made: [(&str, &[&str]); 3] = [
        (
            "run.html",
            &["run", "--requests", "300", "--interval-us", "1000", "--deadline-us", "50", "--report"],
        ),
        (
            "sweep.html",
            &[
                "sweep",
                "--distances",
                "3,5",
                "--noises",
                "0.006,0.009,0.012,0.02",
                "--shots",
                "1000",
                "--report",
            ],
        ),
        ("explain.html", &["explain", "--distance", "3", "--p", "0.01", "--output"]),
    ];
    for (name, arguments) in made {
        let ringcall = || assert_cmd::Command::new(env!("CARGO_BIN_EXE_ringcall"));
        ringcall().args(arguments).arg(path(name)).timeout(Duration::from_secs(120)).assert().success();
        for dark in [false, true] {
            let result = look(browser, folder.path(), name, dark);
            let ink = if dark { "ink rgb(229, 231, 235)" } else { "ink rgb(31, 41, 55)" };
            let good = |line: &str| line.starts_with("looked at ") && line.ends_with(ink);
            assert!(
                result.lines().count() == 2 && result.lines().all(good),
                "{name}, dark {dark}:\n{result}"
            );
        }
    }
}
