//! Runs commands against an object-store server.

#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

#[path = "../../../object/tests/common/server.rs"]
pub mod server;

use std::process::Command;

use crate::common::{Ended, Fixture};
use server::Server;

/// A fixture, and a server for its commands.
pub struct Scene {
    pub fixture: Fixture,
    pub server: Server,
}

impl Scene {
    /// A scene with an S3 server.
    pub fn new() -> Option<Scene> {
        Server::s3().map(Scene::with)
    }

    /// A scene whose bucket `locked` has object lock.
    pub fn with_lock() -> Option<Scene> {
        Server::s3_with_lock().map(Scene::with)
    }

    pub fn with(server: Server) -> Scene {
        Scene { fixture: Fixture::new(), server }
    }

    /// An address in the bucket.
    pub fn address(&self, prefix: &str) -> String {
        format!("{}://bucket/{prefix}", self.server.scheme)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.fixture.command(arguments);
        let endpoint = format!("http://127.0.0.1:{}", self.server.port);
        match self.server.scheme {
            "gs" => command.env("STORAGE_EMULATOR_HOST", endpoint),
            "az" => command.env("AZURE_STORAGE_CONNECTION_STRING", connection(&endpoint)),
            _ => command
                .env("AWS_ACCESS_KEY_ID", "key")
                .env("AWS_SECRET_ACCESS_KEY", "secret")
                .env("AWS_ENDPOINT_URL", endpoint)
                .env_remove("AWS_PROFILE")
                .env_remove("AWS_REGION"),
        };
        command
    }

    #[track_caller]
    pub fn expect(&self, status: i32, arguments: &[&str]) -> Ended {
        let ended = Ended::of(&mut self.command(arguments));
        assert_eq!(ended.status, Some(status), "{arguments:?}: {}", ended.messages);
        ended
    }
}

fn connection(endpoint: &str) -> String {
    let (account, key) = ("devstoreaccount1", server::AZURITE_KEY);
    format!(
        "DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key};\
         BlobEndpoint={endpoint}/{account};"
    )
}
