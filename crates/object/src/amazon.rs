//! S3 requests that OpenDAL does not make.

use std::env;
use std::fmt::Write as _;
use std::time::SystemTime;

use evener_seal::Fault;
use http::header::{DATE, HOST};
use http::{HeaderMap, Method, Request, StatusCode};
use opendal::{Buffer, HttpTransporter};
use reqsign_aws_v4::{
    Credential, DefaultCredentialProvider, RequestSigner, StaticCredentialProvider,
};
use reqsign_core::time::Timestamp;
use reqsign_core::{Context, OsEnv, ProvideCredentialChain, Signer};
use reqsign_file_read_tokio::TokioFileRead;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::address::Address;
use crate::fault::{shown, text};
use crate::operator::{Access, Settings};

/// A server with S3's protocol.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) region: String,
    /// Its URL, if it is not Amazon's own.
    pub(crate) endpoint: Option<String>,
}

impl Server {
    /// The credentials, from the places that Amazon's own tools search.
    pub(crate) fn credentials(&self, settings: &Settings) -> ProvideCredentialChain<Credential> {
        let mut found = DefaultCredentialProvider::builder();
        if let Some(profile) = &settings.profile {
            // As with Amazon's own tools, a profile precedes the keys of the environment.
            found = found.no_env().with_profile(profile);
        }
        let is_far = self.endpoint.as_ref().is_some_and(|it| !it.contains("amazonaws.com"));
        let is_disabled = env::var("AWS_EC2_METADATA_DISABLED").is_ok_and(|it| it == "true");
        if is_far || is_disabled {
            found = found.no_imds();
        }
        let chain = ProvideCredentialChain::new().push(found.build());
        match &settings.access {
            Some(Access { id, secret }) => {
                chain.push_front(StaticCredentialProvider::new(id, secret))
            }
            None => chain,
        }
    }

    /// Makes a signer of requests.
    pub(crate) fn signer(
        &self,
        settings: &Settings,
        transport: &HttpTransporter,
    ) -> Signer<Credential> {
        let context = Context::new()
            .with_file_read(TokioFileRead)
            .with_env(OsEnv)
            .with_http_send(transport.clone());
        let signer = RequestSigner::new("s3", &self.region);
        Signer::new(context, self.credentials(settings), signer)
    }

    fn url(&self, bucket: &str) -> String {
        let usual = || format!("https://s3.{}.amazonaws.com", self.region);
        let endpoint = self.endpoint.clone().unwrap_or_else(usual);
        let scheme = if endpoint.contains("://") { "" } else { "https://" };
        format!("{scheme}{}/{bucket}", endpoint.trim_end_matches('/'))
    }
}

/// Asks for the region of a bucket, at its URL. Amazon names it even when it refuses access; `None`
/// if the answer has none.
///
/// # Errors
/// [`Fault::Failed`] without an answer.
pub(crate) async fn region(
    transport: &HttpTransporter,
    bucket: &str,
) -> Result<Option<String>, Fault> {
    let mut request = Request::new(Buffer::new());
    *request.method_mut() = Method::HEAD;
    *request.uri_mut() = bucket.parse().map_err(|_| Fault::Failed(shown(bucket)))?;
    let answer = transport.send(request).await.map_err(|error| Fault::Failed(text(&error)))?;
    let region = answer.headers().get("x-amz-bucket-region");
    Ok(region.and_then(|region| region.to_str().ok()).map(str::to_owned))
}

/// A client of one bucket.
pub(crate) struct Amazon {
    signer: Signer<Credential>,
    transport: HttpTransporter,
    bucket: String,
    /// True for Amazon's own service.
    pub(crate) is_own: bool,
}

impl Amazon {
    pub(crate) fn new(
        server: &Server,
        address: &Address,
        settings: &Settings,
        transport: HttpTransporter,
    ) -> Amazon {
        let signer = server.signer(settings, &transport);
        let (bucket, is_own) = (server.url(&address.bucket), server.endpoint.is_none());
        Amazon { signer, transport, bucket, is_own }
    }

    /// Makes a request about a key, or about the bucket if that is empty.
    ///
    /// # Errors
    /// [`Fault::Failed`], with the store's message.
    pub(crate) async fn ask(
        &self,
        method: Method,
        key: &str,
        query: &[(&str, &str)],
    ) -> Result<Answer, Fault> {
        self.send(method, key, query, HeaderMap::new(), Buffer::new()).await
    }

    /// Sets a property of an object, which `query` names.
    ///
    /// # Errors
    /// As [`Amazon::ask`].
    pub(crate) async fn put(
        &self,
        key: &str,
        query: &[(&str, &str)],
        headers: HeaderMap,
        body: String,
    ) -> Result<Answer, Fault> {
        self.send(Method::PUT, key, query, headers, Buffer::from(body)).await
    }

    async fn send(
        &self,
        method: Method,
        key: &str,
        query: &[(&str, &str)],
        headers: HeaderMap,
        body: Buffer,
    ) -> Result<Answer, Fault> {
        let failed = |error: &dyn std::fmt::Display| Fault::Failed(shown(&error.to_string()));
        let mut url = format!("{}/{}", self.bucket, escaped(key, b"/"));
        for (number, (name, value)) in query.iter().enumerate() {
            url.push(if number == 0 { '?' } else { '&' });
            url.push_str(name);
            if !value.is_empty() {
                let _ = write!(url, "={}", escaped(value, b""));
            }
        }
        let request = Request::builder().method(method).uri(url).body(body);
        let (mut head, body) = request.map_err(|error| failed(&error))?.into_parts();
        head.headers.extend(headers);
        self.signer.sign(&mut head, None).await.map_err(|error| failed(&error))?;
        head.headers.remove(HOST);
        let sent = self.transport.send(Request::from_parts(head, body)).await;
        let (head, body) = sent.map_err(|error| Fault::Failed(text(&error)))?.into_parts();
        let answer = Answer { headers: head.headers, body };
        if head.status.is_success() { Ok(answer) } else { Err(answer.refusal(head.status)) }
    }
}

/// An answer of the store.
pub(crate) struct Answer {
    headers: HeaderMap,
    body: Buffer,
}

impl Answer {
    /// The time at which the store answered, by its clock.
    pub(crate) fn time(&self) -> SystemTime {
        let date = self.headers.get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| Timestamp::parse_rfc2822(date).ok());
        date.map_or_else(SystemTime::now, Timestamp::as_system_time)
    }

    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        let parsed = quick_xml::de::from_reader(&*self.body.to_bytes());
        parsed.map_err(|error| Fault::Failed(shown(&format!("its answer is malformed: {error}"))))
    }

    fn refusal(&self, status: StatusCode) -> Fault {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Refusal {
            code: String,
            #[serde(default)]
            message: String,
        }
        Fault::Failed(shown(&match self.parse::<Refusal>() {
            Ok(Refusal { code, message }) => {
                format!("{} ({code})", message.trim_end_matches('.'))
            }
            Err(_) => format!("the store refuses it (status {})", status.as_u16()),
        }))
    }
}

/// Parses a time in an answer.
pub(crate) fn time(text: &str) -> Option<SystemTime> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_system_time)
}

/// Percent-encodes a text, except letters, digits, `-._~` and the bytes in `kept`.
fn escaped(text: &str, kept: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            escaped.push(byte.into());
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write as _};
    use std::net::TcpListener;

    use tokio::runtime::Builder;

    use super::*;
    use crate::transport::Patient;

    #[test]
    fn keys_are_escaped_once() {
        assert_eq!(escaped("a b/ü~%", b"/"), "a%20b/%C3%BC~%25");
        assert_eq!(escaped("a/b", b""), "a%2Fb");
    }

    #[test]
    fn a_bucket_tells_its_region() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/bucket", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut request = [0; 20];
            connection.read_exact(&mut request).unwrap();
            let answer = "HTTP/1.1 403 -\r\nx-amz-bucket-region: eu-north-1\r\n\r\n";
            connection.write_all(answer.as_bytes()).unwrap();
            request
        });
        let transport = Patient::new(&Settings::default(), Box::new(|| ())).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let told = runtime.block_on(region(&HttpTransporter::new(transport), &url));
        assert_eq!(told.unwrap().as_deref(), Some("eu-north-1"));
        assert_eq!(&server.join().unwrap(), b"HEAD /bucket HTTP/1.");
    }

    #[test]
    fn the_server_is_amazons_own_unless_there_is_another() {
        let url = |endpoint: Option<&str>| {
            let (region, endpoint) = ("eu-north-1".to_owned(), endpoint.map(str::to_owned));
            Server { region, endpoint }.url("bucket")
        };
        assert_eq!(url(None), "https://s3.eu-north-1.amazonaws.com/bucket");
        assert_eq!(url(Some("http://127.0.0.1:1/")), "http://127.0.0.1:1/bucket");
        assert_eq!(url(Some("s3.example.org")), "https://s3.example.org/bucket");
    }
}
