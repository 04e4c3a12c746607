use super::super::contender::tests::stand_in;
use super::*;

/// A benchmark too small to be meaningful, with a program that only copies.
fn tiny(directory: &Path) -> TreeOptions {
    let real = directory.join("real");
    std::fs::create_dir_all(real.join("empty")).unwrap();
    std::fs::write(real.join("file"), "text").unwrap();
    TreeOptions {
        places: vec![directory.to_owned()],
        trees: vec![TreeName::Small, TreeName::Flat, TreeName::Large, TreeName::Mixed],
        mixed: real,
        contenders: vec![ContenderName::Evener, ContenderName::Openssl],
        rounds: 2,
        budget: 60,
        program: Some(stand_in()),
        files: 4,
        large: 1,
        many: 5,
    }
}

#[test]
fn a_tiny_benchmark_has_all_its_rows() {
    let directory = tempfile::tempdir().unwrap();
    let mut said = Vec::new();
    let options = tiny(directory.path());
    let report = run(&options, &mut |what| said.push(what.to_owned())).unwrap();

    let openssl = report.contenders.iter().any(|contender| contender.name == "openssl enc");
    let per_tree = if openssl { 5 } else { 3 };
    assert_eq!(report.rows.len(), 4 * per_tree);
    assert!(report.rows.iter().all(|row| row.rounds == 2 && row.seconds_median > 0.0));
    let copies = report.rows.iter().filter(|row| row.operation == "copy");
    assert!(copies.clone().count() == 4 && copies.clone().all(|row| row.ratio_to_cp == 1.0));
    assert_eq!(report.memory.len(), 4);
    assert!(said.iter().any(|line| line.ends_with("evener")), "{said:?}");

    let text = report.to_string();
    assert!(text.contains("ratio to cp") && text.contains("cp -r"), "{text}");
    assert!(report.to_svg().contains("evener encrypt"));
    let json = serde_json::to_value(&report).unwrap();
    for name in ["tree", "contender", "operation", "seconds_median", "ratio_to_cp", "peak_rss_mib"]
    {
        assert!(!json["rows"][1][name].is_null(), "{name}");
    }
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 1, "only the real tree is left");
}

#[test]
fn no_budget_is_one_round() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = tiny(directory.path());
    options.trees = vec![TreeName::Small];
    options.contenders = vec![ContenderName::Evener];
    (options.budget, options.many) = (0, 0);
    let report = run(&options, &mut |_| {}).unwrap();
    let rounds: Vec<_> = report.rows.iter().map(|row| row.rounds).collect();
    assert_eq!(rounds, [2, 1, 1]);
    assert!(report.memory.is_empty());
}

#[test]
fn what_is_not_there_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = tiny(directory.path());
    options.places.push(directory.path().join("missing"));
    let report = run(&options, &mut |_| {}).unwrap();
    assert!(!report.rows.is_empty());
    assert!(report.to_string().contains("skipped: "));
    // A benchmark that measures nothing is a failure.
    options.places.remove(0);
    let error = run(&options, &mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("nothing was measured: ") && error.contains("missing"), "{error}");
}

#[test]
fn a_program_that_does_nothing_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = tiny(directory.path());
    options.program = Some("true".into());
    let error = run(&options, &mut |_| {}).unwrap_err();
    assert!(matches!(error, LabError::File { action: "read", .. }), "{error}");
}
