#include "CPresets.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

// Each file is a mapping of names to presets, so one after the other they are one mapping. A test compares this list with the folder.
static const unsigned char presets[] = {
#embed "presets/airtable.yaml"
    ,
#embed "presets/algolia.yaml"
    ,
#embed "presets/anthropic.yaml"
    ,
#embed "presets/app-store-connect.yaml"
    ,
#embed "presets/artifactory.yaml"
    ,
#embed "presets/asana.yaml"
    ,
#embed "presets/atlassian.yaml"
    ,
#embed "presets/auth0.yaml"
    ,
#embed "presets/aws.yaml"
    ,
#embed "presets/azure-openai.yaml"
    ,
#embed "presets/binance.yaml"
    ,
#embed "presets/bitbucket.yaml"
    ,
#embed "presets/box.yaml"
    ,
#embed "presets/buildkite.yaml"
    ,
#embed "presets/circleci.yaml"
    ,
#embed "presets/clickup.yaml"
    ,
#embed "presets/cloudflare.yaml"
    ,
#embed "presets/cohere.yaml"
    ,
#embed "presets/databricks.yaml"
    ,
#embed "presets/datadog.yaml"
    ,
#embed "presets/deepl.yaml"
    ,
#embed "presets/deepseek.yaml"
    ,
#embed "presets/digitalocean.yaml"
    ,
#embed "presets/discord.yaml"
    ,
#embed "presets/docker-hub.yaml"
    ,
#embed "presets/dropbox.yaml"
    ,
#embed "presets/duke.yaml"
    ,
#embed "presets/duo.yaml"
    ,
#embed "presets/elasticsearch.yaml"
    ,
#embed "presets/elevenlabs.yaml"
    ,
#embed "presets/figma.yaml"
    ,
#embed "presets/fly.yaml"
    ,
#embed "presets/gemini.yaml"
    ,
#embed "presets/ghcr.yaml"
    ,
#embed "presets/gitea.yaml"
    ,
#embed "presets/github.yaml"
    ,
#embed "presets/gitlab.yaml"
    ,
#embed "presets/google.yaml"
    ,
#embed "presets/grafana.yaml"
    ,
#embed "presets/groq.yaml"
    ,
#embed "presets/heroku.yaml"
    ,
#embed "presets/hetzner.yaml"
    ,
#embed "presets/honeycomb.yaml"
    ,
#embed "presets/hubspot.yaml"
    ,
#embed "presets/huggingface.yaml"
    ,
#embed "presets/influxdb.yaml"
    ,
#embed "presets/intercom.yaml"
    ,
#embed "presets/jenkins.yaml"
    ,
#embed "presets/keycloak.yaml"
    ,
#embed "presets/kubernetes.yaml"
    ,
#embed "presets/launchdarkly.yaml"
    ,
#embed "presets/linear.yaml"
    ,
#embed "presets/linode.yaml"
    ,
#embed "presets/mailchimp.yaml"
    ,
#embed "presets/mailgun.yaml"
    ,
#embed "presets/mapbox.yaml"
    ,
#embed "presets/microsoft-graph.yaml"
    ,
#embed "presets/mistral.yaml"
    ,
#embed "presets/monday.yaml"
    ,
#embed "presets/netlify.yaml"
    ,
#embed "presets/newrelic.yaml"
    ,
#embed "presets/nexus.yaml"
    ,
#embed "presets/notion.yaml"
    ,
#embed "presets/npm.yaml"
    ,
#embed "presets/okta.yaml"
    ,
#embed "presets/openai.yaml"
    ,
#embed "presets/openrouter.yaml"
    ,
#embed "presets/opsgenie.yaml"
    ,
#embed "presets/pagerduty.yaml"
    ,
#embed "presets/paypal.yaml"
    ,
#embed "presets/perplexity.yaml"
    ,
#embed "presets/pinecone.yaml"
    ,
#embed "presets/postmark.yaml"
    ,
#embed "presets/pypi.yaml"
    ,
#embed "presets/quay.yaml"
    ,
#embed "presets/railway.yaml"
    ,
#embed "presets/reddit.yaml"
    ,
#embed "presets/render.yaml"
    ,
#embed "presets/replicate.yaml"
    ,
#embed "presets/salesforce.yaml"
    ,
#embed "presets/sendgrid.yaml"
    ,
#embed "presets/sentry.yaml"
    ,
#embed "presets/servicenow.yaml"
    ,
#embed "presets/shopify.yaml"
    ,
#embed "presets/slack.yaml"
    ,
#embed "presets/snowflake.yaml"
    ,
#embed "presets/sonarqube.yaml"
    ,
#embed "presets/spotify.yaml"
    ,
#embed "presets/stripe.yaml"
    ,
#embed "presets/supabase.yaml"
    ,
#embed "presets/telegram.yaml"
    ,
#embed "presets/terraform-cloud.yaml"
    ,
#embed "presets/together.yaml"
    ,
#embed "presets/trello.yaml"
    ,
#embed "presets/twilio.yaml"
    ,
#embed "presets/twitch.yaml"
    ,
#embed "presets/typeform.yaml"
    ,
#embed "presets/vault.yaml"
    ,
#embed "presets/vercel.yaml"
    ,
#embed "presets/xai.yaml"
    ,
#embed "presets/zendesk.yaml"
    ,
#embed "presets/zoom.yaml"
};

const unsigned char *authgateway_presets(size_t *length) {
    *length = sizeof presets;
    return presets;
}
