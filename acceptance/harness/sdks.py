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
    #: The SDK sends its key in this parameter of the query.
    parameter: str = ""
    #: What else the SDK reads from its environment, such as the number of an account.
    more: dict = dataclasses.field(default_factory=dict)

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
#: Of OpenAI and of Cohere, which have the same path.
MODELS = {"object": "list", "data": [{"id": PAGE, "object": "model", "created": 1, "owned_by": "a"}], "models": [{"name": PAGE}]}
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
    SDK(
        "openai-async", "api.openai.com", "OPENAI_API_KEY", "sk-",
        "import asyncio, openai\n"
        "async def main():\n    print([model.id async for model in openai.AsyncOpenAI().models.list()][0])\nasyncio.run(main())",
        {"/v1/models": MODELS},
    ),
    SDK(
        "anthropic-async", "api.anthropic.com", "ANTHROPIC_API_KEY", "sk-ant-",
        f'import anthropic, asyncio\n{CHAT}asking = anthropic.AsyncAnthropic().messages.create(model="a", max_tokens=9, messages=asked)\n'
        "async def main():\n    print((await asking).content[0].text)\nasyncio.run(main())",
        {"/v1/messages": MESSAGE},
        field="x-api-key",
    ),
    SDK(
        "openrouter", "openrouter.ai", "OPENROUTER_API_KEY", "sk-or-",
        'import openai, os\nclient = openai.OpenAI(base_url="https://openrouter.ai/api/v1", api_key=os.environ["OPENROUTER_API_KEY"])\n'
        f'{CHAT}print(client.chat.completions.create(model="a", messages=asked){ANSWER}',
        {"/api/v1/chat/completions": COMPLETION},
    ),
    SDK(
        "mistralai", "api.mistral.ai", "MISTRAL_API_KEY", "",
        'import os\nfrom mistralai.client import Mistral\nclient = Mistral(api_key=os.environ["MISTRAL_API_KEY"])\n'
        f'{CHAT}print(client.chat.complete(model="a", messages=asked){ANSWER}',
        {"/v1/chat/completions": COMPLETION},
    ),
    SDK(
        "elevenlabs", "api.elevenlabs.io", "ELEVENLABS_API_KEY", "",
        "import elevenlabs.client\nprint(elevenlabs.client.ElevenLabs().voices.get_all().voices[0].name)",
        {"/v1/voices": {"voices": [{"voice_id": "a", "name": PAGE}]}},
        field="xi-api-key",
    ),
    # It sends the number of the account as the user of Basic, and the key as the password.
    SDK(
        "twilio", "api.twilio.com", "TWILIO_AUTH_TOKEN", "",
        "import twilio.rest\nclient = twilio.rest.Client()\nprint(client.api.accounts(client.account_sid).fetch().friendly_name)",
        {"/2010-04-01/Accounts/AC0123.json": {"sid": "AC0123", "friendly_name": PAGE, "status": "active"}},
        more={"TWILIO_ACCOUNT_SID": "AC0123"},
    ),
    SDK(
        "sendgrid", "api.sendgrid.com", "SENDGRID_API_KEY", "SG.",
        'import os, sendgrid\nclient = sendgrid.SendGridAPIClient(os.environ["SENDGRID_API_KEY"]).client\nprint(client.scopes.get().to_dict["scopes"][0])',
        {"/v3/scopes": {"scopes": [PAGE]}},
    ),
    # It has certificate authorities of its own, and reads no variable for others.
    SDK(
        "stripe", "api.stripe.com", "STRIPE_API_KEY", "sk_test_",
        'import os, stripe\nstripe.ca_bundle_path = os.environ["SSL_CERT_FILE"]\n'
        'print(stripe.StripeClient(os.environ["STRIPE_API_KEY"]).v1.balance.retrieve().available[0].currency)',
        {"/v1/balance": {"object": "balance", "livemode": False, "available": [{"amount": 1, "currency": PAGE}], "pending": []}},
    ),
    SDK(
        "notion-client", "api.notion.com", "NOTION_TOKEN", "ntn_",
        'import notion_client, os\nprint(notion_client.Client(auth=os.environ["NOTION_TOKEN"]).users.me()["name"])',
        {"/v1/users/me": {"object": "user", "id": "a", "type": "bot", "name": PAGE, "bot": {}}},
    ),
    SDK(
        "mapbox", "api.mapbox.com", "MAPBOX_ACCESS_TOKEN", "pk.",
        'import mapbox\nprint(mapbox.Geocoder().forward("a").json()["features"][0]["text"])',
        {"/geocoding/v5/mapbox.places/a.json": {"type": "FeatureCollection", "features": [{"text": PAGE}]}},
        parameter="access_token",
    ),
    SDK(
        "cloudflare", "api.cloudflare.com", "CLOUDFLARE_API_TOKEN", "",
        "import cloudflare\nprint(cloudflare.Cloudflare().user.tokens.verify().id)",
        {"/client/v4/user/tokens/verify": {"success": True, "errors": [], "messages": [], "result": {"id": PAGE, "status": "active"}}},
    ),
    SDK(
        "cohere", "api.cohere.com", "CO_API_KEY", "",
        "import cohere\nprint(cohere.ClientV2().models.list().models[0].name)",
        {"/v1/models": MODELS},
    ),
]  # fmt: skip
HOSTS = sorted({sdk.host for sdk in ALL})
ANSWERS = {path: ("application/json", json.dumps(body).encode()) for sdk in ALL for path, body in sdk.answers.items()}
