//! Profiles of the AWS command line tool.

mod common;
mod scene;

use std::fs;

use common::Ended;
use scene::Scene;

/// Runs a command that finds its keys and endpoint only in files.
fn run(scene: &Scene, more: &[&str], environment: &[(&str, &str)]) -> Ended {
    let verify = [&["list", "s3://bucket/a"], more].concat();
    let mut command = scene.command(&verify);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"] {
        command.env_remove(name);
    }
    command.env("HOME", scene.fixture.path("home")).env("AWS_EC2_METADATA_DISABLED", "true");
    command.envs(environment.iter().copied());
    Ended::of(&mut command)
}

#[test]
fn a_profile_has_keys_a_region_and_an_endpoint() {
    let Some(scene) = Scene::new() else { return };
    scene.expect(0, &["encrypt", "-k", "my.key", "tree", "s3://bucket/a"]);
    let endpoint = format!("endpoint_url = http://127.0.0.1:{}\n", scene.server.port);
    let keys = "aws_access_key_id = key\naws_secret_access_key = secret\n";
    let (config, credentials) = ("home/.aws/config", "home/.aws/credentials");
    fs::create_dir_all(scene.fixture.path("home/.aws")).unwrap();
    let text = format!("[default]\n{endpoint}[profile work]\nregion = us-east-1\n{endpoint}");
    fs::write(scene.fixture.path(config), &text).unwrap();
    fs::write(scene.fixture.path(credentials), format!("[work]\n{keys}")).unwrap();

    let ended = run(&scene, &["--aws-profile", "work"], &[]);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    let ended = run(&scene, &[], &[("AWS_PROFILE", "work")]);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    // The option precedes keys of the environment, as with `aws`, and the variable does not.
    let others = [("AWS_ACCESS_KEY_ID", "other"), ("AWS_SECRET_ACCESS_KEY", "other")];
    let ended = run(&scene, &["--aws-profile", "work"], &others);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    let ended = run(&scene, &[], &[&others[..], &[("AWS_PROFILE", "work")]].concat());
    assert_ne!(ended.status, Some(0));
    // The default profile has no keys.
    let ended = run(&scene, &[], &[]);
    assert!(ended.messages.contains("no credentials were found"), "{}", ended.messages);
    let ended = run(&scene, &["--aws-profile", "none"], &[]);
    assert!(ended.messages.contains("there is no profile `none`"), "{}", ended.messages);

    let [moved_config, moved_credentials] =
        ["elsewhere", "others"].map(|it| scene.fixture.path(it));
    fs::rename(scene.fixture.path(config), &moved_config).unwrap();
    fs::rename(scene.fixture.path(credentials), &moved_credentials).unwrap();
    let files = [
        ("AWS_CONFIG_FILE", moved_config.to_str().unwrap()),
        ("AWS_SHARED_CREDENTIALS_FILE", moved_credentials.to_str().unwrap()),
    ];
    let ended = run(&scene, &["--aws-profile", "work"], &files);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
}
