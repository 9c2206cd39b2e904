"""SDKs that take their API key from the environment, each with a program that prints `PAGE` once its service has answered."""

import dataclasses
import json

from .https_clients import COMPLETION, MESSAGE, PAGE, python


@dataclasses.dataclass
class SDK:
    name: str
    host: str
    #: The variable that `exec` sets, and what stands before the token in it.
    variable: str
    prefix: str
    program: str
    #: What the service answers, by path.
    answers: dict
    #: The field that the SDK sends its key in.
    field: str = "authorization"
    #: The SDK reads no variable: the program does, and `exec` sets it only where it is set already.
    needs_variable: bool = False

    @property
    def command(self):
        return python(self.program, "clients")(None)


CHAT = 'asked = [{"role": "user", "content": "a"}]\n'
ANSWER = ".choices[0].message.content)"
USER = {"id": 1, "login": PAGE, "url": "https://api.github.com/users/a", "type": "User"}
PREDICTION = {
    "id": "a", "version": "a", "status": "succeeded", "input": {}, "output": PAGE, "model": "a/a", "logs": "", "created_at": "2026-01-01T00:00:00Z",
    "urls": {"get": "https://api.replicate.com/v1/predictions/a", "cancel": "https://api.replicate.com/v1/predictions/a/cancel"},
}  # fmt: skip
GEMINI = {"candidates": [{"content": {"role": "model", "parts": [{"text": PAGE}]}, "finishReason": "STOP"}]}
GITLAB_USER = {"id": 1, "username": PAGE, "name": "a", "state": "active", "web_url": "https://gitlab.com/a"}

ALL = [
    SDK(
        "openai", "api.openai.com", "OPENAI_API_KEY", "sk-",
        f'import openai\n{CHAT}print(openai.OpenAI().chat.completions.create(model="a", messages=asked){ANSWER}',
        {"/v1/chat/completions": COMPLETION},
    ),
    SDK(
        "anthropic", "api.anthropic.com", "ANTHROPIC_API_KEY", "sk-ant-",
        f'import anthropic\n{CHAT}print(anthropic.Anthropic().messages.create(model="a", max_tokens=9, messages=asked).content[0].text)',
        {"/v1/messages": MESSAGE},
        field="x-api-key",
    ),
    SDK(
        "google-genai", "generativelanguage.googleapis.com", "GEMINI_API_KEY", "",
        'from google import genai\nclient = genai.Client()\nprint(client.models.generate_content(model="gemini-a", contents="a").text)',
        {"/v1/models/gemini-a:generateContent": GEMINI},
        field="x-goog-api-key",
    ),
    SDK(
        "PyGithub", "api.github.com", "GITHUB_TOKEN", "",
        'import github, os\nprint(github.Github(auth=github.Auth.Token(os.environ["GITHUB_TOKEN"])).get_user().login)',
        {"/user": USER},
    ),
    SDK(
        "box-sdk-gen", "api.box.com", "BOX_DEVELOPER_TOKEN", "",
        "import box_sdk_gen, os\n"
        'auth = box_sdk_gen.BoxDeveloperTokenAuth(token=os.environ["BOX_DEVELOPER_TOKEN"])\n'
        "print(box_sdk_gen.BoxClient(auth=auth).users.get_user_me().name)",
        {"/2.0/users/me": {"id": "1", "type": "user", "name": PAGE}},
        needs_variable=True,
    ),
    SDK(
        "groq", "api.groq.com", "GROQ_API_KEY", "gsk_",
        f'import groq\n{CHAT}print(groq.Groq().chat.completions.create(model="a", messages=asked){ANSWER}',
        {"/openai/v1/chat/completions": COMPLETION},
    ),
    SDK(
        "perplexityai", "api.perplexity.ai", "PERPLEXITY_API_KEY", "pplx-",
        f'import perplexity\n{CHAT}print(perplexity.Perplexity().chat.completions.create(model="a", messages=asked){ANSWER}',
        {"/chat/completions": COMPLETION, "/v1/chat/completions": COMPLETION},
    ),
    SDK(
        "replicate", "api.replicate.com", "REPLICATE_API_TOKEN", "r8_",
        'import replicate\nprint(replicate.predictions.get("a").output)',
        {"/v1/predictions/a": PREDICTION},
    ),
    SDK(
        "huggingface_hub", "huggingface.co", "HF_TOKEN", "hf_",
        'import huggingface_hub\nprint(huggingface_hub.whoami()["name"])',
        {"/api/whoami-v2": {"name": PAGE, "type": "user"}},
    ),
    SDK(
        "slack_sdk", "slack.com", "SLACK_BOT_TOKEN", "xoxb-",
        'import os, slack_sdk\nprint(slack_sdk.WebClient(token=os.environ["SLACK_BOT_TOKEN"]).auth_test()["user"])',
        {"/api/auth.test": {"ok": True, "user": PAGE}},
    ),
    SDK(
        "python-gitlab", "gitlab.com", "GITLAB_TOKEN", "",
        'import gitlab, os\nserver = gitlab.Gitlab(private_token=os.environ["GITLAB_TOKEN"])\nserver.auth()\nprint(server.user.username)',
        {"/api/v4/user": GITLAB_USER},
        field="private-token",
    ),
]  # fmt: skip
HOSTS = [sdk.host for sdk in ALL]
ANSWERS = {path: ("application/json", json.dumps(body).encode()) for sdk in ALL for path, body in sdk.answers.items()}
