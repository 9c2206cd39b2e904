"""moto, which plays AWS: it verifies signatures with botocore, and refuses what the user of the access key may not do."""

import json
import os
import subprocess
import sys

from .https_clients import PACKAGES, python
from .processes import free_port, is_listening, wait_until

REGION = "eu-central-1"

#: What moto answers without a signature: these calls, by which the user is made.
SETUP = """
import boto3, json, sys
iam = boto3.client("iam", endpoint_url=sys.argv[1], verify=sys.argv[2] or None, region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")
statement = {"Effect": "Allow", "Action": "*", "Resource": "*"}
iam.create_user(UserName="gateway")
iam.put_user_policy(UserName="gateway", PolicyName="all", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
key = iam.create_access_key(UserName="gateway")["AccessKey"]
print(json.dumps([key["AccessKeyId"], key["SecretAccessKey"]]))
"""


def run(program, *arguments, **changes):
    """Runs a program that uses boto3, without the user's own configuration."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true", **changes}
    command = [*python(program, "boto3")(None), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


class Moto:
    def __init__(self, authority=None):
        """With a certificate authority, it speaks TLS as localhost and as aws.test."""
        self.port = free_port()
        secure = ()
        if authority:
            certificate, key = authority.issue("aws", "DNS:localhost,DNS:aws.test")
            secure = ("-s", "-c", str(certificate), "-k", str(key))
        self.url = f"https://localhost:{self.port}" if authority else f"http://127.0.0.1:{self.port}"
        program = f"import sys; sys.path.insert(0, {str(PACKAGES)!r}); from moto.server import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, "-H", "127.0.0.1", "-p", str(self.port), *secure],
            env={
                **os.environ,
                "INITIAL_NO_AUTH_ACTION_COUNT": str(SETUP.count("\niam.") + SETUP.count("= iam.")),
                # Otherwise `aws` in aws.test is a bucket.
                "S3_IGNORE_SUBDOMAIN_BUCKETNAME": "true",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: is_listening(self.port), 30, "moto listens")
        made = run(SETUP, self.url, authority.certificate if authority else "")
        assert made.returncode == 0, made.stderr
        #: The access key of a user who may do everything.
        self.key_id, self.secret = json.loads(made.stdout)

    def stop(self):
        self.process.kill()
        self.process.wait()
